// Draws a connectome on its canvas: the wheel, a pinch or the buttons zoom, dragging moves, pointing tells a value.
//
// drawMatrix takes an element with the canvas and its controls, a connectome of viewer/matrix.py, colours, and what
// hears of a click: two places of nodes. It returns the value of two nodes by the name of a measure.
const drawMatrix = (() => {
  const UNKNOWN = 65535, STEPS = 65532, LEAST_LABEL = 13, FONT = "12px system-ui, sans-serif", GAP = 5;
  const number = v => v === 0 ? "0" : Number.isInteger(v) && v < 1e4 ? String(v) : Number(v.toPrecision(4)).toLocaleString("en");

  function decoded(coded) {
    const text = atob(coded.codes), codes = new Uint16Array(text.length / 2);
    for (let k = 0; k < codes.length; k++) codes[k] = text.charCodeAt(2 * k) | (text.charCodeAt(2 * k + 1) << 8);
    const span = Math.log(coded.high / coded.low);
    return {codes, value: k => codes[k] === 0 ? 0 : codes[k] === UNKNOWN ? NaN : coded.low * Math.exp((codes[k] - 1) / STEPS * span)};
  }

  return (root, connectome, ramp, hear = () => {}) => {
    const canvas = root.querySelector("canvas"), select = root.querySelector("select"), told = root.querySelector(".told");
    const low = root.querySelector(".least"), high = root.querySelector(".most"), n = connectome.nodes.length, small = document.createElement("canvas");
    small.width = small.height = n;
    const place = (i, j) => i <= j ? i * n - i * (i - 1) / 2 + j - i : place(j, i);
    const known = new Map(connectome.measures.map(measure => [measure.name, decoded(measure.values)]));
    const counts = known.get(connectome.counted);
    let values, errors, whole, zoom = 1, left = 0, top = 0, picked = null, margin = 0, widest = 0;
    const pointers = new Map();

    function choose() {
      const measure = connectome.measures[Number(select.value) || 0];
      values = decoded(measure.values); errors = decoded(measure.errors);
      // counts are whole numbers, which the scale has rounded
      whole = measure.name === connectome.counted;
      const image = new ImageData(n, n);
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
        const code = values.codes[place(i, j)], at = 4 * (i * n + j);
        if (code === 0 || code === UNKNOWN) continue;
        const colour = ramp[Math.round((code - 1) / STEPS * (ramp.length - 1))];
        image.data.set([...colour, 255], at);
      }
      small.getContext("2d").putImageData(image, 0, 0);
      low.textContent = number(measure.values.low); high.textContent = number(measure.values.high);
      draw(); tell();
    }

    function draw() {
      const size = canvas.clientWidth, dense = window.devicePixelRatio || 1;
      if (!size) return;
      canvas.width = canvas.height = Math.round(size * dense);
      const pen = canvas.getContext("2d"), style = getComputedStyle(root);
      pen.scale(dense, dense); pen.font = FONT;
      widest = widest || Math.max(...connectome.names.map(name => pen.measureText(name).width));
      // names lie beside the cells, where these are large enough
      const room = Math.min(widest + 2 * GAP, .3 * size);
      margin = (size - room) * zoom / n >= LEAST_LABEL ? room : 0;
      const side = size - margin, cell = side * zoom / n;
      pen.fillStyle = style.getPropertyValue("--card"); pen.fillRect(0, 0, size, margin); pen.fillRect(0, 0, margin, size);
      if (margin) names(pen, cell, style.getPropertyValue("--ink"));
      pen.translate(margin, margin);
      pen.beginPath(); pen.rect(0, 0, side, side); pen.clip();
      pen.imageSmoothingEnabled = cell < 1;
      pen.drawImage(small, -left * cell, -top * cell, n * cell, n * cell);
      if (picked) {
        pen.strokeStyle = style.getPropertyValue("--accent"); pen.lineWidth = 1.5;
        const x = (picked[1] - left) * cell, y = (picked[0] - top) * cell;
        pen.strokeRect(x - 1, y - 1, cell + 2, cell + 2);
        pen.globalAlpha = .45;
        pen.strokeRect(x - 1, -9, cell + 2, size + 18); pen.strokeRect(-9, y - 1, size + 18, cell + 2);
      }
    }

    // those of rows left of them, those of columns above them, for rows and columns whose middle is shown
    function names(pen, cell, colour) {
      pen.fillStyle = colour; pen.textBaseline = "middle";
      const middles = first => connectome.names.map((name, k) => [name, (k - first + .5) * cell]).filter(([, at]) => at >= 0 && at <= n * cell / zoom);
      pen.textAlign = "right";
      for (const [name, at] of middles(top)) pen.fillText(name, margin - GAP, margin + at, margin - 2 * GAP);
      pen.textAlign = "left";
      for (const [name, at] of middles(left)) {
        pen.save(); pen.translate(margin + at, margin - GAP); pen.rotate(-Math.PI / 2);
        pen.fillText(name, 0, 0, margin - 2 * GAP); pen.restore();
      }
    }

    function tell() {
      if (!picked) return;
      const [i, j] = picked, k = place(i, j), value = whole ? Math.round(values.value(k)) : values.value(k), error = errors.value(k);
      const lines = [
        ["", i === j ? `${connectome.names[i]}, with itself` : `${connectome.names[i]} \u2013 ${connectome.names[j]}`],
        ["value", `${select.selectedOptions[0].textContent}: ${Number.isNaN(value) ? "not known" : number(value)}`],
        ["quiet", Number.isNaN(error) ? "standard error: not known" : `standard error: \u00b1${number(error)}`],
        ...(whole || !counts ? [] : [["quiet", `${number(Math.round(counts.value(k)))} streamlines`]]),
        ["quiet", `labels ${connectome.nodes[i]} and ${connectome.nodes[j]}`]];
      told.replaceChildren(...lines.map(([kind, text]) => Object.assign(document.createElement("p"), {className: kind, textContent: text})));
    }

    function bounded() {
      zoom = Math.min(Math.max(zoom, 1), Math.max(n / 6, 1));
      const most = n - n / zoom;
      left = Math.min(Math.max(left, 0), most); top = Math.min(Math.max(top, 0), most);
      draw();
    }
    function zoomed(factor, x = .5, y = .5) {
      const before = n / zoom;
      zoom = Math.min(Math.max(zoom * factor, 1), Math.max(n / 6, 1));
      left += x * (before - n / zoom); top += y * (before - n / zoom);
      bounded();
    }
    const spot = event => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left - margin) / (box.width - margin), (event.clientY - box.top - margin) / (box.height - margin)];
    };
    function point(event) {
      const [x, y] = spot(event), j = Math.floor(left + x * n / zoom), i = Math.floor(top + y * n / zoom);
      if (i < 0 || j < 0 || i >= n || j >= n) return false;
      picked = [i, j]; draw(); tell();
      return true;
    }
    canvas.addEventListener("wheel", event => {
      if (zoom === 1 && event.deltaY > 0) return;
      event.preventDefault(); zoomed(Math.exp(-event.deltaY / 300), ...spot(event));
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, spot(event)); point(event); });
    canvas.addEventListener("pointermove", event => {
      const now = spot(event), before = pointers.get(event.pointerId);
      if (!before) { point(event); return; }
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1], far = p => Math.hypot(p[0] - other[0], p[1] - other[1]);
        zoomed(far(now) / Math.max(far(before), .01), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      } else if (zoom > 1) { left -= (now[0] - before[0]) * n / zoom; top -= (now[1] - before[1]) * n / zoom; bounded(); }
      else point(event);
      pointers.set(event.pointerId, now);
    });
    canvas.addEventListener("click", event => { if (point(event)) hear(...picked); });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, event => pointers.delete(event.pointerId));
    canvas.addEventListener("keydown", event => {
      const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}, move = moves[event.key];
      if (event.key === "Enter" && picked) hear(...picked);
      else if (event.key === "+" || event.key === "-") zoomed(event.key === "+" ? 1.5 : 1 / 1.5);
      else if (move) {
        picked = picked ? picked.map((one, k) => Math.min(Math.max(one + move[k], 0), n - 1)) : [0, 0];
        left = Math.min(Math.max(left, picked[1] + 1 - n / zoom), picked[1]); top = Math.min(Math.max(top, picked[0] + 1 - n / zoom), picked[0]);
        bounded(); tell();
      } else return;
      event.preventDefault();
    });
    root.querySelector(".in").addEventListener("click", () => zoomed(2));
    root.querySelector(".out").addEventListener("click", () => zoomed(.5));
    root.querySelector(".all").addEventListener("click", () => { zoom = 1; bounded(); });
    select.addEventListener("change", choose);
    new ResizeObserver(draw).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    choose();
    return (name, i, j) => known.get(name).value(place(i, j));
  };
})();
