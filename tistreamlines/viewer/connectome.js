// The connectome: a matrix, a ring, and a list of nodes. A click on an edge or a node chooses its streamlines.
const MOST_CHORDS = 300, NAMED_NODES = 36, RADIUS = 52, FREE_RADIUS = 88;

const svg = (name, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
};

// Fills the section of a connectome. ``nodes`` has the two nodes of each streamline of the sample, from 1 on. ``hear``
// is called after each choice. Returns a function that tells whether a streamline belongs to the choice.
const makeConnectome = (root, facts, nodes, hear) => {
  const { connectome, ramp } = facts, n = connectome.names.length, at = (name) => root.querySelector(name);
  const measure = at("[name=measure]"), node = at("[name=node]"), ring = at("#ring"), told = at(".told");
  measure.replaceChildren(...connectome.measures.map(({ name }, k) => new Option(name, k)));
  node.replaceChildren(new Option("all", ""), ...connectome.names.map((name, k) => new Option(name, k)));
  at(".ramp").style.background = "linear-gradient(90deg," + ramp.filter((_, k) => k % 29 === 0).map((c) => "rgb(" + c + ")") + ")";
  if (connectome.missing.length) told.firstElementChild.append(" The page has no room for " + connectome.missing.join(", ") + ".");
  let choice = null; // an edge, two places, or a node, one
  const includes = (i) => {
    if (!choice) return true;
    const [a, b] = [nodes[2 * i] - 1, nodes[2 * i + 1] - 1], [c, d] = choice;
    return d === undefined ? (a === c && b >= 0) || (b === c && a >= 0) : (a === c && b === d) || (a === d && b === c);
  };
  const nameOf = ([i, j]) => j === undefined ? connectome.names[i] : i === j ? connectome.names[i] + ", with itself" : connectome.names[i] + " – " + connectome.names[j];
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  const total = (place) => {
    if (place.length === 2) return valueOf(connectome.counted, ...place);
    let sum = 0;
    for (let k = 0; k < n; k++) sum += valueOf(connectome.counted, place[0], k);
    return sum;
  };
  const choose = (place) => {
    const same = choice && place && choice.join() === place.join();
    choice = same ? null : place;
    node.value = choice?.length === 1 ? String(choice[0]) : "";
    let text = "";
    if (choice) {
      let drawn = 0;
      for (let i = 0; i < facts.shown; i++) drawn += includes(i);
      text = nameOf(choice) + ": " + drawn.toLocaleString("en") + " drawn of " + number(Math.round(total(choice))) + " streamlines";
    }
    at("#edge").textContent = text;
    at("#all-edges").disabled = !choice;
    drawRing();
    hear();
  };
  const valueOf = drawMatrix(at(".matrix"), connectome, ramp, (i, j) => choose([Math.min(i, j), Math.max(i, j)]));

  // ------------------------------------------------------------------------------------------------------ the ring
  const hasNames = n <= NAMED_NODES, radius = hasNames ? RADIUS : FREE_RADIUS;
  const spot = (k, r) => { const angle = 2 * Math.PI * (k + 0.5) / n - Math.PI / 2; return [r * Math.cos(angle), r * Math.sin(angle)]; };
  const say = (place) => {
    const name = connectome.measures[measure.value].name, lines = [nameOf(place)];
    if (place.length === 2) lines.push(name + ": " + number(valueOf(name, ...place)));
    lines.push(number(Math.round(total(place))) + " streamlines");
    told.replaceChildren(...lines.map((text, k) => Object.assign(document.createElement("p"), { textContent: text, className: k === 1 ? "value" : "" })));
  };
  const part = (place, attributes) => {
    const element = svg("path", attributes);
    if (choice && choice.join() === place.join()) element.classList.add("chosen");
    element.addEventListener("pointerenter", () => say(place));
    element.addEventListener("click", () => choose(place));
    return element;
  };
  // keys reach nodes; edges, which can be hundreds, they reach in the matrix
  const arc = (k, attributes) => {
    const isPressed = choice?.length === 1 && choice[0] === k;
    const element = part([k], { ...attributes, tabindex: 0, role: "button", "aria-label": connectome.names[k], "aria-pressed": isPressed, "data-node": k });
    element.addEventListener("focus", () => say([k]));
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose([k]);
    });
    return element;
  };
  const drawRing = () => {
    if (ring.hasAttribute("hidden")) return;
    const { name } = connectome.measures[measure.value], edges = [];
    for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) {
      const value = valueOf(name, i, j);
      if (value > 0) edges.push([value, i, j]);
    }
    edges.sort((a, b) => b[0] - a[0]);
    edges.length = Math.min(edges.length, MOST_CHORDS);
    const greatest = edges.length ? edges[0][0] : 1;
    const chords = edges.reverse().map(([value, i, j]) => {
      const weight = Math.max(value / greatest, 0.02), [a, b] = [spot(i, radius), spot(j, radius)];
      return part([i, j], {
        d: "M" + a + "Q0,0 " + b, stroke: "hsl(" + 360 * i / n + " 60% 50%)", "stroke-width": 0.5 + 4 * Math.sqrt(weight), "stroke-opacity": 0.25 + 0.6 * weight,
      });
    });
    const arcs = connectome.names.map((_, k) => {
      const [a, b] = [spot(k - 0.42, radius + 3), spot(k + 0.42, radius + 3)], r = radius + 3;
      return arc(k, { d: "M" + a + "A" + r + "," + r + " 0 0 1 " + b, stroke: "hsl(" + 360 * k / n + " 60% 50%)", "stroke-width": 5 });
    });
    const texts = !hasNames ? [] : connectome.names.map((text, k) => {
      const angle = 360 * (k + 0.5) / n - 90, isLeft = angle > 90, turned = isLeft ? angle + 180 : angle;
      return svg("text", {
        transform: "rotate(" + turned + ")", x: (isLeft ? -1 : 1) * (radius + 8), "text-anchor": isLeft ? "end" : "start", "dominant-baseline": "central",
      }, text.length > 14 ? text.slice(0, 13) + "…" : text);
    });
    const held = ring.contains(document.activeElement) ? document.activeElement.dataset.node : null;
    ring.replaceChildren(...chords, ...arcs, ...texts);
    if (held !== null) arcs[held].focus({ preventScroll: true });
  };
  const show = (asRing) => {
    at("#cells").hidden = asRing;
    ring.toggleAttribute("hidden", !asRing);
    at(".key").hidden = asRing;
    at("#as-ring").setAttribute("aria-pressed", asRing);
    at("#as-matrix").setAttribute("aria-pressed", !asRing);
    drawRing();
  };
  at("#as-ring").onclick = () => show(true);
  at("#as-matrix").onclick = () => show(false);
  at("#all-edges").onclick = () => choose(null);
  for (const element of [measure, node]) element.addEventListener("input", (event) => event.stopPropagation());
  measure.addEventListener("change", drawRing);
  node.addEventListener("change", () => choose(node.value === "" ? null : [Number(node.value)]));
  at("#all-edges").disabled = true;
  return includes;
};
