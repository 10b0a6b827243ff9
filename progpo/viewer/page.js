"use strict";
// Everything that an environment said is put into the page with textContent, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { sources, texts } = data;
  const lower = texts.map((text) => text.toLowerCase());
  const VALID = 1, FIRST_VISIT = 2;
  const byId = (id) => document.getElementById(id);
  const [search, type, outcome, branch] = ["search", "type", "outcome", "branch"].map(byId);
  let needle = "";
  let chosen = -1;

  /** Make an element: its class, and its children, which are elements or text. */
  function make(tag, className, ...children) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  /** Text with what was searched for marked. */
  function marked(text) {
    const parts = [];
    const folded = text.toLowerCase();
    let from = 0;
    // A character whose lower case is longer would shift the places: then nothing is marked.
    for (let at; needle && folded.length === text.length && (at = folded.indexOf(needle, from)) >= 0; ) {
      parts.push(text.slice(from, at), make("mark", "", text.slice(at, at + needle.length)));
      from = at + needle.length;
    }
    return [...parts, text.slice(from)];
  }

  const number = (value, digits = 2) => (value === null ? "–" : String(+value.toFixed(digits)));
  const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(2).replace("-", "−");
  const kindOf = (one) => (one.success ? "solved" : one.score > 0 ? "partly" : "failed");
  const WORDS = { solved: "succeeded", partly: "in part", failed: "failed" };
  const SIGNS = { solved: "■", partly: "◧", failed: "□" };

  function outcomeOf(group) {
    const successes = group.trajectories.filter((one) => one.success).length;
    return successes === 0 ? "failed" : successes === group.trajectories.length ? "solved" : "mixed";
  }

  function numbersOf(group) {
    const numbers = new Set();
    for (const one of group.trajectories) {
      numbers.add(one.start);
      for (const [action, next, , , , before] of one.steps) {
        numbers.add(action).add(next);
        if (before !== undefined) numbers.add(before);
      }
    }
    return numbers;
  }

  /** What the list holds: a group of the one source, or of both those of one task. */
  function makeEntries() {
    const entries = new Map();
    sources.forEach((source, place) => {
      const met = new Map();
      for (const group of source.groups) {
        const count = met.get(group.task) || 0;
        met.set(group.task, count + 1);
        const key = JSON.stringify(sources.length > 1 ? [group.task, count] : group.group);
        if (!entries.has(key)) {
          entries.set(key, { task: group.task, type: group.type, groups: sources.map(() => null), numbers: [] });
        }
        entries.get(key).groups[place] = group;
        entries.get(key).numbers.push(numbersOf(group));
      }
    });
    return [...entries.values()];
  }

  const entries = makeEntries();

  /** The advantage that has the full colour: of most steps that have one, the largest. */
  const strongest = sources.map((source) => {
    const sizes = source.groups
      .flatMap((group) => group.trajectories.flatMap((one) => one.steps.map((step) => Math.abs(step[3] || 0))))
      .filter((size) => size > 0)
      .sort((one, other) => one - other);
    return sizes.length ? sizes[Math.floor(0.95 * (sizes.length - 1))] : 1;
  });

  function summary(group, place) {
    const arm = sources.length > 1 ? make("span", "arm", sources[place].label.split(",")[0]) : null;
    if (!group) return make("div", "row", arm, make("span", "faint", "no group of this task"));
    const marks = make("span", "marks");
    for (const one of group.trajectories) marks.append(make("span", kindOf(one), SIGNS[kindOf(one)]));
    const good = group.trajectories.filter((one) => one.success).length;
    const mean = group.trajectories.reduce((sum, one) => sum + one.progress, 0) / group.trajectories.length;
    const row = make("div", "row", arm, marks, `${good}/${group.trajectories.length}`);
    const progress = make("span", "faint", `★ ${mean.toFixed(2)}`);
    progress.title = "mean progress: the share of steps that led to something new";
    row.append(progress);
    if (group.branch) row.append(make("span", "branch", group.branch));
    return row;
  }

  const buttons = entries.map((entry, place) => {
    const groups = entry.groups.filter(Boolean).map((group) => group.group);
    const title = sources.length > 1 ? entry.type : `${groups[0]} · ${entry.type}`;
    const button = make("button", "", make("b", "", title), make("small", "", entry.task));
    button.type = "button";
    button.title = entry.task;
    button.append(...entry.groups.map(summary));
    button.addEventListener("click", () => choose(place));
    byId("groups").append(make("li", "", button));
    return button;
  });

  function fits(entry, hits) {
    const groups = entry.groups.filter(Boolean);
    return (
      (!type.value || entry.type === type.value) &&
      (!outcome.value || groups.some((group) => outcomeOf(group) === outcome.value)) &&
      (!branch.value || groups.some((group) => group.branch === branch.value)) &&
      (!needle ||
        entry.task.toLowerCase().includes(needle) ||
        entry.numbers.some((numbers) => [...numbers].some((number) => hits.has(number))))
    );
  }

  const visible = () => buttons.map((_, place) => place).filter((place) => !buttons[place].parentNode.hidden);

  function filter() {
    needle = search.value.trim().toLowerCase();
    const hits = new Set(needle ? lower.flatMap((text, place) => (text.includes(needle) ? [place] : [])) : []);
    entries.forEach((entry, place) => (buttons[place].parentNode.hidden = !fits(entry, hits)));
    const there = visible();
    byId("count").textContent = `${there.length} of ${entries.length} ${sources.length > 1 ? "tasks" : "groups"}`;
    if (!there.length) {
      chosen = -1;
      byId("detail").replaceChildren(make("p", "faint", "No group is like that: loosen the filters or the search."));
    } else {
      choose(there.includes(chosen) ? chosen : there[0]);
    }
  }

  function heading(one, first) {
    const kind = kindOf(one);
    const facts = [`${one.steps.length} steps`, `progress ${number(one.progress)}`];
    if (one.outcome !== one.score || (one.score > 0 && one.score < 1)) facts.push(`outcome ${number(one.outcome)}`);
    if (one.advantage !== null) facts.push(`advantage ${signed(one.advantage)}`);
    const title = make("div", "", make("b", "", `trajectory ${one.trajectory}`), " ");
    title.append(make("span", kind, `${SIGNS[kind]} ${WORDS[kind]}${kind === "partly" ? ` (${number(one.score)})` : ""}`));
    const cell = make("th", first ? "next-arm" : "", title, make("div", "faint", facts.join(" · ")));
    cell.scope = "col";
    return cell;
  }

  function stepCell(one, at, place, first) {
    const cell = make("td", first ? "next-arm" : "");
    if (at >= one.steps.length) return cell;
    const [action, next, flags, advantage, reward, before] = one.steps[at];
    if (before !== undefined) cell.append(make("div", "observation again", ...marked(texts[before])));
    const valid = flags & VALID;
    const tags = make("span", "tags");
    const line = make("div", "action", make("span", valid ? "" : "bad", ...marked(texts[action] || "(nothing)")), tags);
    if (!valid) tags.append(make("span", "invalid", "✗ invalid"));
    if (flags & FIRST_VISIT) tags.append(make("span", "first", "★ new"));
    if (reward) tags.append(make("span", "reward", `reward ${number(reward)}`));
    if (advantage !== null) {
      const share = Math.min(1, Math.abs(advantage) / strongest[place]);
      if (advantage) line.classList.add(advantage > 0 ? "above" : "below");
      line.style.setProperty("--share", `${Math.round(8 + 52 * share)}%`);
      tags.append(make("span", "advantage", signed(advantage)));
    }
    cell.append(line, make("div", flags & FIRST_VISIT ? "observation" : "observation again", ...marked(texts[next])));
    if (at === one.steps.length - 1) {
      const end = { ended: "the episode ended", cut: "cut: no steps or no context left", unfinished: "goes on" }[one.end];
      cell.append(make("div", "ended", `— ${end} —`));
    }
    return cell;
  }

  function table(entry) {
    const columns = entry.groups.flatMap((group, place) =>
      group ? group.trajectories.map((one, at) => ({ one, place, first: place > 0 && at === 0 })) : [],
    );
    const head = make("thead");
    if (sources.length > 1) {
      const row = make("tr", "", make("th"));
      entry.groups.forEach((group, place) => {
        if (!group) return;
        const cell = make("th", place ? "next-arm" : "", make("b", "", sources[place].label));
        if (group.branch) cell.append(make("span", "faint", ` branch: ${group.branch}`));
        cell.colSpan = group.trajectories.length;
        cell.scope = "colgroup";
        row.append(cell);
      });
      head.append(row);
    }
    head.append(make("tr", "", make("th", "faint", "step"), ...columns.map(({ one, first }) => heading(one, first))));
    const body = make("tbody");
    const longest = Math.max(...columns.map(({ one }) => one.steps.length));
    for (let at = 0; at < longest; at += 1) {
      const label = make("th", "", String(at));
      label.scope = "row";
      body.append(make("tr", "", label, ...columns.map(({ one, place, first }) => stepCell(one, at, place, first))));
    }
    return make("table", columns.length > 10 ? "many" : "", head, body);
  }

  function choose(place) {
    chosen = place;
    buttons.forEach((button, at) => button.setAttribute("aria-current", String(at === place)));
    const entry = entries[place];
    const starts = new Set(
      entry.groups.filter(Boolean).flatMap((group) => group.trajectories.map((one) => one.start)),
    );
    const branches = new Set(entry.groups.filter(Boolean).map((group) => group.branch).filter(Boolean));
    const title = make("h2", "", `${entry.type} `, make("span", "faint", ...marked(entry.task)));
    if (sources.length === 1 && branches.size) title.append(make("span", "faint", ` · branch: ${[...branches][0]}`));
    const scroller = make("div", "scroller", table(entry));
    scroller.tabIndex = 0;
    scroller.setAttribute("role", "region");
    scroller.setAttribute("aria-label", "Steps");
    byId("detail").replaceChildren(
      title,
      ...[...starts].map((start) => make("div", "start", ...marked(texts[start]))),
      scroller,
    );
    history.replaceState(null, "", `#${place}`);
    const found = needle && scroller.querySelector("mark");
    if (found) found.scrollIntoView({ block: "center", inline: "nearest" });
  }

  function move(by) {
    const there = visible();
    const at = there[Math.min(there.length - 1, Math.max(0, there.indexOf(chosen) + by))];
    if (at === undefined) return;
    choose(at);
    buttons[at].focus();
  }

  function toggleObservations() {
    document.body.classList.toggle("hide-observations", !byId("observations").checked);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === search && event.key === "Escape") {
      search.value = "";
      search.blur();
      filter();
    }
    if (event.target.matches("input[type=search], select")) return;
    const inList = event.target.closest("nav");
    if (event.key === "j" || (inList && event.key === "ArrowDown")) move(1);
    else if (event.key === "k" || (inList && event.key === "ArrowUp")) move(-1);
    else if (event.key === "/") search.focus();
    else if (event.key === "o") byId("observations").click();
    else return;
    event.preventDefault();
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("observations").addEventListener("change", toggleObservations);
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 150);
  });
  for (const select of [type, outcome, branch]) select.addEventListener("change", filter);

  const options = (values) => [...new Set(values)].filter(Boolean).sort().map((value) => new Option(value, value));
  type.append(...options(entries.map((entry) => entry.type)));
  branch.append(...options(sources.flatMap((source) => source.groups.map((group) => group.branch))));
  branch.closest("label").hidden = branch.length === 1;
  for (const { path, facts } of sources) {
    const told = Object.entries(facts).map(([name, value]) => `${name} ${value}`);
    byId("facts").append(make("p", "", [path, ...told].join(" · ")));
  }
  chosen = Number.parseInt(location.hash.slice(1), 10);
  filter();
  toggleObservations();
})();
