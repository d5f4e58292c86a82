// The list of regions by name: each can have the seeds, or be one that streamlines have to pass or may not enter.
const USES = { seed: ["seed", "Seeds in "], include: ["in", "Include "], exclude: ["out", "Exclude "] };
const regionList = (namesNow, search, list, isUsed, toggle) => {
  const MOST = 200; // rows at a time
  const rows = new Map(); // a row is made once, since a button that is made anew loses its click and the focus
  let names = null; // of all regions, which are others when the parcellation is written anew
  let visible = []; // those in the list
  const make = (name) => {
    const item = document.createElement("li"), text = document.createElement("span");
    text.textContent = name;
    const buttons = Object.entries(USES).map(([kind, [word, meaning]]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: word, title: meaning + name });
      button.setAttribute("aria-label", meaning + name);
      button.onclick = () => toggle(kind, name);
      return [kind, button];
    });
    item.append(text, ...buttons.map(([, button]) => button));
    return { item, buttons };
  };
  const row = (name) => {
    if (!rows.has(name)) rows.set(name, make(name));
    return rows.get(name);
  };
  const mark = () => {
    for (const name of visible) for (const [kind, button] of row(name).buttons) button.setAttribute("aria-pressed", isUsed(kind, name));
  };
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    names = namesNow();
    const matches = names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    visible = matches.slice(0, MOST);
    list.replaceChildren(...visible.map((name) => row(name).item));
    mark();
    const more = matches.length - MOST;
    if (more > 0 || !matches.length) {
      list.append(Object.assign(document.createElement("li"), { textContent: more > 0 ? "and " + more + " more" : "no such region" }));
    }
  };
  search.addEventListener("input", show);
  return () => (names === namesNow() ? mark() : show());
};
