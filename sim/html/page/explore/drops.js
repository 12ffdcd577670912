// Files that are dropped onto the page, or opened by the button.

let drops = 0;

const cleaned = name => name.replace(/[^\w.-]/g, "_").replace(/^\.+/, "_");

/** [{path, file}] of what was dropped, folders with all that is in them. */
async function filesIn(entry, before = "") {
  if (entry.isFile) return [{path: before + cleaned(entry.name), file: await new Promise((good, bad) => entry.file(good, bad))}];
  const reader = entry.createReader(), found = [];
  for (let some_; (some_ = await new Promise((good, bad) => reader.readEntries(good, bad))).length;) found.push(...some_);
  return (await Promise.all(found.filter(each => !each.name.startsWith(".")).map(each => filesIn(each, `${before}${cleaned(entry.name)}/`)))).flat();
}

const DROPPED = {
  topology: said => { droppedNames.topologies.unshift({name: said.path, description: "dropped"}); history.commit(state => { state.topologies = [said.path]; clusterOn = said.path; }); },
  model: said => { droppedNames.models.unshift({name: said.path, description: "dropped"}); history.commit(state => { state.model = said.path; }); },
  trace: said => { droppedNames.traces.unshift({name: said.path, description: "dropped"}); history.commit(state => useTrace(state, said.path)); },
  scenario: said => history.commit(state => { Object.assign(state, {...blank(), text: said.text}); }),
  profile: said => tellInDialog(`Where the time of ${said.name} goes`, element("pre", {class: "said"}, said.text)),
  result: async (said, file) => {
    const document_ = JSON.parse(await file.text());
    if (document_.format !== "moesim-result") throw new Refused(`${said.name}: moesim report draws a ${document_.format}; this page takes results of run and compare`);
    if (shownNow.result) {
      pin(resultOf({name: said.name, document: document_}), null, said.name);
      openTab("compare");
    } else {
      show(document_, {}, null);
    }
  },
};

/** Hands dropped files over and uses what they are. */
async function takeFiles(files) {
  if (!files.length) return;
  runner.told({note: `reading ${files[0].path} …`});
  try {
    const set = `d${Date.now().toString(36)}${++drops}`;
    for (const {path, file} of files) await ask(`/api/drop?set=${set}&path=${encodeURIComponent(path)}`, {body: file, type: "application/octet-stream"});
    const run = await followed(await ask(`/api/check?set=${set}&path=${encodeURIComponent(files[0].path.split("/")[0])}`, {body: ""}));
    if (run.state !== "done") throw new Refused(run.failure ? run.failure.error : "cancelled");
    runner.told({note: `${run.document.name}: a ${run.document.kind}`});
    await DROPPED[run.document.kind](run.document, files[0].file);
  } catch (error) {
    runner.told({failed: error.message});
    if (!(error instanceof Refused)) throw error;
  }
}

function tellInDialog(title, ...content) {
  const dialog = document.getElementById("dialog");
  dialog.setAttribute("aria-label", title);
  dialog.replaceChildren(element("h2", {}, title), ...content, element("div", {class: "controls"}, element("button", {type: "button", onclick: () => dialog.close()}, "Close")));
  dialog.showModal();
}

const veil = document.getElementById("veil");
addEventListener("dragenter", event => { event.preventDefault(); veil.hidden = false; });
addEventListener("dragover", event => event.preventDefault());
addEventListener("dragleave", event => { if (!event.relatedTarget) veil.hidden = true; });
addEventListener("drop", async event => {
  event.preventDefault();
  veil.hidden = true;
  const entries = [...event.dataTransfer.items].map(item => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
  takeFiles(entries.length ? (await Promise.all(entries.map(entry => filesIn(entry)))).flat() : [...event.dataTransfer.files].map(file => ({path: cleaned(file.name), file})));
});
