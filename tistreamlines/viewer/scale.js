// A scale: a colour map, and the two values between which the colours change, which the user can change.
const MAPS = ["viridis", "plasma", "inferno", "hot", "gray", "cool", "blue2red", "turbo"];

// Adds a scale to an element; ``hear`` is called after each change by the user. ``lutOf`` returns the 256 colours of a
// map, four bytes each.
const makeScale = (root, lutOf, hear, label) => {
  const maps = document.createElement("select"), bar = document.createElement("canvas");
  const [least, greatest] = ["least", "greatest"].map((kind) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "number", step: "any", className: kind });
    input.setAttribute("aria-label", (kind === "least" ? "Value of the first colour: " : "Value of the last colour: ") + label);
    return input;
  });
  maps.setAttribute("aria-label", "Colours: " + label);
  Object.assign(bar, { width: 256, height: 1 });
  const scale = document.createElement("div");
  scale.className = "scale";
  scale.append(bar, least, greatest, maps);
  root.append(scale);
  const paint = () => {
    const colours = Uint8ClampedArray.from(lutOf(maps.value), (x, k) => k % 4 === 3 ? 255 : x);
    bar.getContext("2d").putImageData(new ImageData(colours, 256, 1), 0, 0);
  };
  const values = {
    get map() { return maps.value; },
    get lut() { return lutOf(maps.value); },
    get low() { return Number(least.value); },
    get high() { return Number(greatest.value); },
    set: (map, low, high) => {
      maps.replaceChildren(...[...new Set([map, ...MAPS])].map((name) => new Option(name, name)));
      maps.value = map;
      [least.value, greatest.value] = [low, high].map((value) => Number(value.toPrecision(4)));
      paint();
    },
  };
  scale.addEventListener("input", (event) => {
    event.stopPropagation();
    if (event.target.value === "" || !(values.low < values.high)) return;
    paint();
    hear();
  });
  return values;
};
