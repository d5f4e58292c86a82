// The list of regions by name: each can have the seeds, or be one that streamlines have to pass or may not enter.
const USES = { seed: ["seed", "Seeds in "], include: ["in", "Include "], exclude: ["out", "Exclude "] };
const regionList = (names, search, list, isUsed, toggle) => {
  const MOST = 200; // rows at a time
  const row = (name) => {
    const item = document.createElement("li"), text = document.createElement("span");
    text.textContent = name;
    item.append(text, ...Object.entries(USES).map(([kind, [word, meaning]]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: word, title: meaning + name });
      button.setAttribute("aria-label", meaning + name);
      button.setAttribute("aria-pressed", isUsed(kind, name));
      button.onclick = () => toggle(kind, name);
      return button;
    }));
    return item;
  };
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    const found = names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    list.replaceChildren(...found.slice(0, MOST).map(row));
    const more = found.length - MOST;
    if (more > 0 || !found.length) {
      list.append(Object.assign(document.createElement("li"), { textContent: more > 0 ? "and " + more + " more" : "no such region" }));
    }
  };
  search.addEventListener("input", show);
  return show;
};
