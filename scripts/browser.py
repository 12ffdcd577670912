# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium driven over its DevTools pipe, with only Python.

The network is off in it, so a page that asks for anything fails. Used by tests of reports and by draw_screenshots.
"""
import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         "--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb")


def find_browser():
    """The program, None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(Exception):
    pass


class Browser:
    """One page of one browser: `with Browser() as page: page.open(file)`.

    `serves`: the begin of addresses that it may ask, "http://127.0.0.1:8642/"; then the network is on.
    """

    def __init__(self, width=1240, height=900, dark=False, patience=60, serves=None):
        self.size, self.dark, self.patience, self.serves = (width, height), dark, patience, serves
        self.ids = itertools.count(1)
        self.events, self.buffer = [], b""
        self.session = None

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="moesim-browser-")
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        # The browser reads commands on descriptor 3 and writes answers on 4.
        command = [find_browser(), *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "browser", *command],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        if not self.serves:
            self.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.resize(*self.size)
        self.use_theme(self.dark)
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.send("Browser.close")
        except (BrowserError, OSError):
            self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        """The next message of the browser."""
        end = time.monotonic() + self.patience
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, end - time.monotonic()))
            data = os.read(self.into, 1 << 16) if ready else b""
            if not data:
                raise BrowserError("the browser ended" if ready else f"no answer in {self.patience} s")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def send(self, method, **parameters):
        """The result of a DevTools command."""
        number = next(self.ids)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.receive()
            if answer.get("id") != number:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def resize(self, width, height, scale=1):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def use_theme(self, dark):
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, file):
        """Opens a local file and waits until it has drawn itself."""
        self.go(pathlib.Path(file).resolve().as_uri())

    def go(self, address):
        """Opens an address and waits until its page has been read."""
        self.events.clear()
        self.send("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def value(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def complaints(self):
        """What the page wrote to the console as errors or warnings, threw, or asked the network for."""
        self.value("0")  # what was said so far has arrived
        found = []
        for event in self.events:
            said = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(said["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif event["method"] == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(each.get("value", each.get("description"))) for each in said["args"]))
            elif event["method"] == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(said["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and not said["request"]["url"].startswith(self.own()):
                found.append("asked for " + said["request"]["url"])
        return found

    def own(self):
        """How the addresses begin that a page may ask for."""
        return ("file:", "data:", "blob:") + ((self.serves,) if self.serves else ())

    def until(self, expression, patience=None):
        """Waits for an expression to hold; its value."""
        end = time.monotonic() + (patience or self.patience)
        while not (value := self.value(expression)):
            if time.monotonic() > end:
                raise BrowserError(f"never: {expression}")
            time.sleep(0.02)
        return value

    def place(self, selector, index=0):
        """The middle of an element, scrolled into view: (x, y)."""
        at = self.value(f"""(() => {{
            const found = document.querySelectorAll({json.dumps(selector)})[{index}];
            if (!found) return null;
            found.scrollIntoView({{block: "center"}});
            const box = found.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        if at is None:
            raise BrowserError(f"there is no {selector}")
        return at

    def hover(self, selector, index=0, at=None):
        x, y = at or self.place(selector, index)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector, index=0):
        x, y = self.place(selector, index)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "")

    def write(self, text):
        self.send("Input.insertText", text=text)

    def picture(self, selector=None, margin=12):
        """A PNG of an element, or of what is in the window."""
        if selector is None:
            return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        self.place(selector)
        box = self.value(f"""(() => {{
            const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
            return [box.x + scrollX, box.y + scrollY, box.width, box.height];
        }})()""")
        clip = {"x": box[0] - margin, "y": box[1] - margin, "width": box[2] + 2 * margin, "height": box[3] + 2 * margin, "scale": 1}
        return base64.b64decode(self.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
