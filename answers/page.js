"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = $(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        source.closest("details")?.setAttribute("open", "");
        getSelection().selectAllChildren(source);
        button.textContent = "Selected. Copy it with the keyboard";
      }
    });
  }
  const save = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () =>
      save(button.dataset.name, $(button.dataset.save).textContent));
  }

  // Users can sort, filter and copy tables of candidates.
  for (const table of document.querySelectorAll("table[data-tools]")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, k) => {
      const text = row.cells[k].textContent.replace(/^\u2212/, "-");
      const found = Number.parseFloat(text.replace(/^[<>] /, ""));
      return heads[k].classList.contains("number") && !Number.isNaN(found) ? found : text;
    };
    heads.forEach((head, k) => {
      const button = document.createElement("button");
      button.textContent = head.textContent;
      button.type = "button";
      let up = false;
      button.addEventListener("click", () => {
        up = !up;
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a, k), value(b, k)];
          return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
        });
        body.append(...rows);
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
      });
      head.replaceChildren(button);
    });
    const tools = Object.assign(document.createElement("p"), { className: "tools" });
    const wanted = Object.assign(document.createElement("input"), {
      type: "search", placeholder: "filter",
    });
    wanted.setAttribute("aria-label", "Show rows that contain");
    wanted.addEventListener("input", () => {
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted.value.toLowerCase());
      }
    });
    const csv = Object.assign(document.createElement("button"), {
      type: "button", textContent: "Copy as CSV",
    });
    csv.addEventListener("click", async () => {
      const quoted = (cell) => {
        // A spreadsheet interprets a name that begins like this as a formula.
        const isFormula = /^[=+\-@\t]/.test(cell.textContent) && !cell.classList.contains("number");
        const plain = cell.textContent.replaceAll("\u2212", "-");
        const text = isFormula ? `'${plain}` : plain;
        return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      };
      const lines = [table.tHead.rows[0], ...body.rows].filter((row) => !row.hidden)
        .map((row) => [...row.cells].map(quoted).join(","));
      try {
        await navigator.clipboard.writeText(lines.join("\n"));
        csv.textContent = "Copied";
      } catch {
        save("table.csv", `${lines.join("\n")}\n`);
      }
    });
    tools.append(wanted, " ", csv);
    table.parentElement.before(tools);
  }

  const inflate = async (text, Kind) => {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Kind(await new Response(stream).arrayBuffer());
  };
  const digits = (value) => {
    const text = value.toPrecision(3);
    return text.includes("e") ? String(Number(text)) : text;
  };
  const inUnit = (value, units) => {
    const [size, name] = units.find(([minimum]) => Math.abs(value) >= minimum) ?? units.at(-1);
    return `${value ? digits(value / size) : 0}\u00a0${name}`;
  };
  const amount = (value) => inUnit(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  const seconds = (value) => inUnit(value, [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]]);

  // Darker means busier in both themes. Differences are blue if A is busier, brown if B is.
  const rgb = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  const RAMP = JSON.parse($("ramp").textContent).map(rgb);
  const BLUE = ["#f4f4f4", "#a6cbe6", "#3d87bf", "#08376b"].map(rgb);
  const BROWN = ["#f4f4f4", "#f0c08c", "#c76a16", "#6b2f00"].map(rgb);
  const shade = (ramp, share) => {
    const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
    const i = Math.min(Math.floor(at), ramp.length - 2);
    return `rgb(${ramp[i].map((c, k) => Math.round(c + (at - i) * (ramp[i + 1][k] - c)))})`;
  };

  const network = async () => {
    const source = $("network");
    if (!source) return;
    const given = JSON.parse(source.textContent);
    const ports = 2 * given.shape.length;
    const nNodes = given.shape.reduce((a, b) => a * b, 1);
    const nLinks = nNodes * ports;
    const busy = await inflate(given.busy, Uint8Array);
    const parts = given.parts.length ? await inflate(given.part_busy, Uint8Array) : null;
    const pairs = {};
    for (const [i, packed] of Object.entries(given.pairs)) {
      const links = await inflate(packed.links, Int32Array);
      pairs[i] = {
        row: new Map([...links].map((link, row) => [link, row])),
        ends: await inflate(packed.ends, Int32Array),
        bytes: await inflate(packed.bytes, Float32Array),
      };
    }
    const stride = given.shape.map((_, k) => given.shape.slice(k + 1).reduce((a, b) => a * b, 1));
    const time = (use, link) => busy[use * nLinks + link] / given.steps * given.max_busy[use];
    const exists = (link) => busy[link] !== given.missing;
    const name = (link) => {
      const node = Math.floor(link / ports), port = link % ports;
      const coords = given.shape.map((size, k) => Math.floor(node / stride[k]) % size);
      // A line does not break within the name of a link.
      return `(${coords})\u00a0${port % 2 ? "\u2212" : "+"}\u2060${given.dimensions[port >> 1]}`;
    };

    const first = $("first"), second = $("second");
    const several = given.names.length > 1;
    given.names.forEach((label, i) => {
      first.add(new Option(label, i));
      second.add(new Option(label, i));
    });
    second.value = several ? "1" : "0";
    for (const each of [first.parentElement, $("second-label"), $("modes"), $("figure-b")]) {
      each.hidden = !several;
    }
    const mode = () => several
      ? document.querySelector("input[name=mode]:checked").value : "both";

    // A grid per dimension and direction: a row per ring, a column per position on the ring.
    const bandWidth = (block) => given.label + block.columns * given.cell + 4;
    // The coordinates of a ring along the other dimensions, without the last if it has its group.
    const ringLabel = (block, ring) => {
      const others = given.shape.map((_, k) => k).filter((k) => k !== block.dimension);
      let rest = ring;
      const coords = others.toReversed().map((k) => {
        const own = rest % given.shape[k];
        rest = Math.floor(rest / given.shape[k]);
        return `${given.dimensions[k]}${own}`;
      }).reverse();
      return coords.slice(0, block.group > 1 ? -1 : undefined).join("");
    };
    const layout = (width) => {
      const cells = [];
      let x = 0, y = 14, high = 0;
      const { cell } = given;
      for (const block of given.blocks) {
        for (const side of [0, 1]) {
          const gaps = block.rows / block.group - 1;
          const wide = block.bands * bandWidth(block);
          const tall = block.rows * cell + 2 * gaps;
          if (x && x + wide > width) { x = 0; y += high + 22; high = 0; }
          cells.push({ ...block, side, x, y, wide, tall });
          x += wide + 12;
          high = Math.max(high, tall);
        }
      }
      return { cells, height: y + high + 4, width: Math.max(...cells.map((c) => c.x + c.wide)) };
    };
    const where = (block, link) => {
      const node = Math.floor(link / ports), k = block.dimension;
      const inner = node % stride[k], size = block.columns;
      const column = Math.floor(node / stride[k]) % size;
      const ring = Math.floor(node / (stride[k] * size)) * stride[k] + inner;
      const band = Math.floor(ring / block.rows), row = ring % block.rows;
      return [block.x + band * bandWidth(block) + given.label + column * given.cell,
        block.y + row * given.cell + 2 * Math.floor(row / block.group), ring, column];
    };
    const linkOf = (block, ring, column) => {
      const k = block.dimension;
      const outer = Math.floor(ring / stride[k]), inner = ring % stride[k];
      return ((outer * block.columns + column) * stride[k] + inner) * ports + 2 * k + block.side;
    };

    const busiest = (use) => {
      const all = [...Array(nLinks).keys()].filter(exists);
      all.sort((p, q) => time(use, q) - time(use, p));
      // Frame a single link if more than three are about equally busy.
      const nEqual = all.filter((link) => time(use, link) >= 0.99 * time(use, all[0])).length;
      return { links: all.slice(0, nEqual > 3 ? 1 : 3), nEqual };
    };
    let chosen = null;
    const maps = {};
    const draw = (which, value, ramps, limit, marked) => {
      const canvas = $(`map-${which}`);
      const made = layout(Math.max($(`frame-${which}`).clientWidth, 120));
      const ratio = Math.max(devicePixelRatio || 1, 2);
      canvas.width = made.width * ratio;
      canvas.height = made.height * ratio;
      canvas.style.width = `${made.width}px`;
      canvas.style.height = `${made.height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const style = getComputedStyle(document.body);
      const gap = given.cell > 4 ? 1 : 0;
      for (const block of made.cells) {
        pen.fillStyle = style.color;
        pen.font = "11px system-ui, sans-serif";
        pen.fillText(`${block.side ? "\u2212" : "+"}${given.dimensions[block.dimension]}`,
          block.x, block.y - 4);
        const rings = nNodes / block.columns;
        // Label groups of rings, as many as have room.
        const step = block.group * Math.ceil(12 / (block.group * given.cell));
        pen.font = "11px system-ui, sans-serif";
        for (let ring = 0; given.label && ring < rings; ring++) {
          if (ring % block.rows % step) continue;
          const [x, y] = where(block, linkOf(block, ring, 0));
          pen.fillText(ringLabel(block, ring), x - given.label, y + 8, given.label - 2);
        }
        for (let ring = 0; ring < rings; ring++) {
          for (let column = 0; column < block.columns; column++) {
            const link = linkOf(block, ring, column);
            if (!exists(link)) continue;
            const [x, y] = where(block, link);
            const v = value(link);
            pen.fillStyle = shade(v < 0 ? ramps[1] : ramps[0], Math.abs(v) / limit);
            pen.fillRect(x, y, given.cell - gap, given.cell - gap);
          }
        }
        for (const link of [...marked, chosen]) {
          if (link === null || (link % ports) !== 2 * block.dimension + block.side) continue;
          const [x, y] = where(block, link);
          pen.strokeStyle = link === chosen ? style.color : "#00a36c";
          pen.lineWidth = link === marked[0] ? 3 : 1.5;
          pen.strokeRect(x - 1, y - 1, given.cell + 1, given.cell + 1);
        }
        if (given.twisted) {
          const edge = block.side ? block.x : block.x + (block.columns - 1) * given.cell;
          pen.fillStyle = style.color;
          pen.fillRect(edge, block.y - 2, given.cell - gap, 1);
        }
      }
      maps[which] = made;
    };
    const scale = (low, high, colour) => {
      $("scale-low").textContent = low;
      $("scale-high").textContent = high;
      const pen = $("scale").getContext("2d");
      for (let i = 0; i < 160; i++) {
        pen.fillStyle = colour(i / 159);
        pen.fillRect(i, 0, 1, 12);
      }
    };
    const describe = (link) => {
      const uses = several ? [Number(first.value), Number(second.value)] : [0];
      const details = $("link-details");
      const busyUnder = uses.map((use) => `${seconds(time(use, link))} under ${given.names[use]}`);
      details.textContent = `Link ${name(link)}: busy ${busyUnder.join(", ")}.`;
      const list = document.createElement("ul");
      const add = (text) => list.append(
        Object.assign(document.createElement("li"), { textContent: text }));
      for (const use of uses) {
        const known = pairs[use], row = known?.row.get(link);
        for (let k = 0; row !== undefined && k < given.pairs_per_link; k++) {
          const at = row * given.pairs_per_link + k;
          if (known.ends[2 * at] < 0) break;
          add(`${given.names[use]}: task ${known.ends[2 * at]} to task ` +
            `${known.ends[2 * at + 1]}, ${amount(known.bytes[at])}`);
        }
        given.parts.forEach((part, k) => {
          const at = (use * given.parts.length + k) * nLinks + link;
          if (parts[at]) add(`${given.names[use]}: ${part}, ` +
            seconds(parts[at] / given.steps * given.max_busy[use]));
        });
      }
      if (list.childElementCount) details.append(list);
    };
    const redraw = () => {
      const a = Number(first.value), b = Number(second.value);
      const difference = mode() === "difference";
      $("figure-b").hidden = !several || difference;
      const caption = (use) => {
        const { links, nEqual } = busiest(use);
        return `${given.names[use]}, busiest link ${name(links[0])}: ` +
          seconds(given.max_busy[use]) + (nEqual > 3 ? `, ${nEqual} links within 1\u00a0%` : "");
      };
      $("name-a").textContent = difference
        ? `${given.names[a]} minus ${given.names[b]}` : caption(a);
      $("name-b").textContent = caption(b);
      if (difference) {
        let limit = 0;
        for (let link = 0; link < nLinks; link++) {
          if (exists(link)) limit = Math.max(limit, Math.abs(time(a, link) - time(b, link)));
        }
        limit ||= 1e-12;
        draw("a", (link) => time(a, link) - time(b, link), [BLUE, BROWN], limit, []);
        scale(`B busier by ${seconds(limit)}`, `A busier by ${seconds(limit)}`, (s) =>
          s < 0.5 ? shade(BROWN, 1 - 2 * s) : shade(BLUE, 2 * s - 1));
      } else {
        const limit = Math.max(given.max_busy[a], several ? given.max_busy[b] : 0) || 1e-12;
        draw("a", (link) => time(a, link), [RAMP, RAMP], limit, busiest(a).links);
        if (several) draw("b", (link) => time(b, link), [RAMP, RAMP], limit, busiest(b).links);
        scale("idle", `busy ${seconds(limit)}`, (s) => shade(RAMP, s));
      }
      $("map-a").setAttribute("aria-label", `Links under ${$("name-a").textContent}`);
      $("map-b").setAttribute("aria-label", `Links under ${given.names[b]}`);
      document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
    };
    const linkAt = (which, event) => {
      const { cell, label } = given;
      for (const block of maps[which].cells) {
        const x = event.offsetX - block.x, y = event.offsetY - block.y;
        if (x < 0 || y < 0 || x >= block.wide || y >= block.tall) continue;
        const group = block.group * cell + 2;
        const band = Math.floor(x / bandWidth(block));
        const column = Math.floor((x - band * bandWidth(block) - label) / cell);
        const row = Math.floor(y / group) * block.group +
          Math.min(Math.floor((y % group) / cell), block.group - 1);
        const ring = band * block.rows + row;
        if (column < 0 || column >= block.columns || ring >= nNodes / block.columns) continue;
        const link = linkOf(block, ring, column);
        if (exists(link)) return link;
      }
      return null;
    };
    const choose = (link) => { chosen = link; redraw(); describe(link); };
    for (const which of ["a", "b"]) {
      const canvas = $(`map-${which}`);
      canvas.addEventListener("click", (event) => {
        const link = linkAt(which, event);
        if (link !== null) choose(link);
      });
      canvas.addEventListener("mousemove", (event) => {
        const link = linkAt(which, event) ?? chosen;
        if (link !== null) describe(link);
      });
      canvas.addEventListener("mouseleave", () => { if (chosen !== null) describe(chosen); });
      canvas.addEventListener("keydown", (event) => {
        const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0],
          ArrowDown: [1, 0], PageUp: "before", PageDown: "next" };
        const move = moves[event.key];
        if (!move && event.key !== "Enter") return;
        event.preventDefault();
        const blocks = maps[which].cells;
        const use = Number(which === "a" ? first.value : second.value);
        if (chosen === null || event.key === "Enter") return choose(busiest(use).links[0]);
        let k = blocks.findIndex((each) => 2 * each.dimension + each.side === chosen % ports);
        const [, , ring, column] = where(blocks[k], chosen);
        if (typeof move === "string") {
          k = (k + (move === "next" ? 1 : blocks.length - 1)) % blocks.length;
          return choose(linkOf(blocks[k], 0, 0));
        }
        const rings = nNodes / blocks[k].columns, columns = blocks[k].columns;
        choose(linkOf(blocks[k], (ring + move[0] + rings) % rings,
          (column + move[1] + columns) % columns));
      });
    }
    for (const control of document.querySelectorAll("#first, #second, input[name=mode]")) {
      control.addEventListener("change", () => {
        redraw();
        if (chosen !== null) describe(chosen);
      });
    }
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== width) { width = innerWidth; redraw(); }
    });
    for (const media of [dark, matchMedia("print")]) media.addEventListener("change", redraw);
    redraw();
  };
  network().then(() => { document.body.dataset.ready = "yes"; });
})();
