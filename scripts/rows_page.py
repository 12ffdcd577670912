# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/results/whole-steps.md; its other words are written by hand."""

import statistics

NEAR_ENOUGH = 0.15  # rows with errors up to this are only counted

TOTALS = ("<!-- totals: written by scripts/predict_rows.py -->", "<!-- end of totals -->")
ROWS = ("<!-- rows: written by scripts/predict_rows.py -->", "<!-- end of rows -->")


def percentile(values, part):
    """The least value that so many per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * part // 100) - 1))]


def total_of(judged):
    """One sentence over all sections whose times are judged, or nothing."""
    timed = [of for section, of in judged if section.get("times", True)]
    errors = [e for of in timed for e in of["errors"]]
    if not errors:
        return ""
    rows, pairs = sum(of["rows"] for of in timed), sum(of["pairs"] for of in timed)
    text = (f"{len(errors)} of {rows} published rows are predicted: median absolute error "
            f"{statistics.median(errors):.1%}, 90th percentile {percentile(errors, 90):.1%}")
    text += f"; {sum(of['right'] for of in timed) / pairs:.0%} of pairs in order" if pairs else ""
    lack = [f"{of['section']}/{row}" for of in timed for row in of["lack_traces"]]
    return text + (f"; balanced, for want of their recorded routing (--traces): {', '.join(lack)}" if lack else "")


def totals(judged):
    lines = [total_of(judged) + ".", "",
             "| section | rows | median error | 90th percentile | pairs in order | "
             "overlap gains, predicted / measured | peak memory, at most |",
             "|---|---|---|---|---|---|---|"]
    for section, of in judged:
        if not of["ran"]:
            continue
        timed = section.get("times", True)
        gains = ", ".join(f"{p:.2f} / {m:.2f}" for _, _, p, m in of["gains"]) or "-"
        cells = [section["id"], str(of["rows"]) if of["ran"] == of["rows"] else f"{of['ran']} of {of['rows']}",
                 f"{statistics.median(of['errors']):.1%}" if timed else "not judged",
                 f"{percentile(of['errors'], 90):.1%}" if timed else "-",
                 f"{of['right']} of {of['pairs']}" if timed else "-", gains,
                 memory_of_section(of)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def memory_of_section(of):
    texts = [f"{max(of['memory']):.1%}"] if of["memory"] else []
    if of.get("fits"):
        texts.append(f"fits or not {sum(of['fits'])} of {len(of['fits'])}")
    return "; ".join(texts) or "-"


def memory_of(r):
    """Of a row the peak, where somebody measured it or whether it fits."""
    if "measured_gib" in r:
        text = f"; {r['memory_gib']:.2f}/{r['measured_gib']:.2f} GiB, {r['memory_error']:+.1%}"
    else:
        text = f"; {r['memory_gib']:.2f} GiB" if "memory_gib" in r else ""
    if "fits" in r:
        words = {True: "fits", False: "out of memory"}
        text += f"; {words[r['fits']]}" + ("" if r["fits"] == r["measured_fits"] else f", measured {words[r['measured_fits']]}")
    return text


def told(r):
    """What takes most of the time, and the memory where somebody measured it."""
    part, seconds = max(r["parts"].items(), key=lambda part: part[1])
    text = f"{part.replace(' ', '-')} {seconds / r['predicted_s']:.0%}"
    for part, seconds in r["measured_parts"].items():
        text += f"; {part} {r['turns'][part]:.2f} of {seconds:.2f} s ({r['turns'][part] / seconds - 1:+.0%})"
    return text + memory_of(r)


def row_of(r):
    if "error" not in r:
        return f"| {r['id']} | - | - | - | not predicted: {r['why'][:90]} |"
    return f"| {r['id']} | {r['predicted_s']:.2f} | {r['measured_s']:.2f} | {r['error']:+.1%} | {told(r)} |"


def needs_row(r):
    """Whether more than the error is of interest."""
    return "error" not in r or abs(r["error"]) > NEAR_ENOUGH or r["measured_parts"]


def timed_lines(results):
    """A table of the rows that are far off, and how many others there are."""
    shown = [r for r in results if needs_row(r)]
    near = len(results) - len(shown)
    lines = []
    if shown:
        lines += ["| row | predicted, s | measured, s | error | most of it |", "|---|---|---|---|---|", *map(row_of, shown), ""]
    if near:
        lines += [f"Within {NEAR_ENOUGH:.0%}: {near} of {len(results)} rows.", ""]
    return lines


def memory_line_of(r):
    """Of sections whose times are not judged."""
    return f"- {r['id']}: {memory_of(r)[2:] or 'not predicted: ' + r['why'][:90]}"


def rows(judged, everything):
    lines = []
    for section, _ in judged:
        results = [r for r in everything if r["section"] == section["id"]]
        lines += [f"### {section['id']}: {section['title']}", "", f"Source: {section['source']}.", ""]
        if section.get("times", True):
            lines += timed_lines(results)
        else:
            lines += [*map(memory_line_of, results), ""]
    return "\n".join(lines).rstrip()


def replaced(page, marks, text):
    begin, end = page.index(marks[0]) + len(marks[0]), page.index(marks[1])
    return page[:begin] + "\n" + text + "\n" + page[end:]


def write(path, judged, everything):
    with open(path, encoding="utf-8") as f:
        page = f.read()
    page = replaced(page, TOTALS, totals(judged))
    page = replaced(page, ROWS, rows(judged, everything))
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)
