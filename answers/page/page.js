"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = () => {
    const [ink, line] = dark.matches ? ["#e6edf3", "#30363d"] : ["#1b1f24", "#d0d7de"];
    const words = { labelColor: ink, titleColor: ink };
    return {
      background: "transparent", font: "system-ui, sans-serif", view: { stroke: line },
      axis: { ...words, gridColor: line, domainColor: line, tickColor: line },
      legend: { ...words, orient: "top", labelLimit: 260 }, title: { color: ink },
      text: { fill: ink, color: ink }, rule: { color: ink },
    };
  };
  const options = (renderer) => ({ actions: false, renderer, config: config(), ast: false });

  // Narrow pages leave less room to the names beside a chart.
  const fitted = (spec) => {
    const copy = structuredClone(spec);
    if (innerWidth < 600 && copy.encoding?.y?.axis?.labelLimit) {
      copy.encoding.y.axis.labelLimit = 90;
    }
    return copy;
  };

  const drawCharts = async () => {
    for (const [id, spec] of Object.entries(read("charts"))) {
      await vegaEmbed(`#${id}`, fitted(spec), options("svg"));
    }
  };

  const inflate = async (text) => {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  };

  const amount = (value) => {
    const units = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
    const [size, name] = units.find(([least]) => value >= least) ?? [1, "B"];
    return `${(value / size).toPrecision(3)} ${name}`;
  };

  // The torus: links as stubs, coloured and as wide as their busy share.
  const network = async () => {
    const given = read("network");
    if (!given) return;
    const ports = given.stubs.length;
    const nLinks = given.x.length * ports;
    const shares = new Uint8Array(await inflate(given.shares));
    const parts = given.parts.length ? new Uint8Array(await inflate(given.part_shares)) : null;
    const pairs = {};
    for (const [i, packed] of Object.entries(given.pairs)) {
      pairs[i] = {
        ends: new Int32Array(await inflate(packed.ends)),
        bytes: new Float32Array(await inflate(packed.bytes)),
      };
    }
    const first = document.getElementById("first");
    const second = document.getElementById("second");
    const slider = document.getElementById("slider");
    const mode = () => document.querySelector("input[name=shown]:checked").value;
    given.names.forEach((label, i) => {
      first.add(new Option(`${i + 1}  ${label}`, i));
      second.add(new Option(`${i + 1}  ${label}`, i));
    });
    second.value = String(given.names.length - 1);
    slider.max = String(given.names.length - 1);

    const share = (candidate, link) => shares[candidate * nLinks + link] / given.steps;
    const exists = (link) => shares[link] !== given.missing;
    const label = (link) => {
      let node = Math.floor(link / ports);
      const place = given.shape.map((_, k) => {
        const stride = given.shape.slice(k + 1).reduce((a, b) => a * b, 1);
        const c = Math.floor(node / stride);
        node -= c * stride;
        return c;
      });
      const port = link % ports;
      return `(${place}) ${port % 2 ? "-" : "+"}${given.dimensions[port >> 1]}`;
    };

    const rows = () => {
      const [a, b, shown] = [Number(first.value), Number(second.value), mode()];
      const found = [];
      for (let link = 0; link < nLinks; link++) {
        if (!exists(link)) continue;
        const one = share(a, link), other = share(b, link);
        const value = shown === "a" ? one : shown === "b" ? other : one - other;
        found.push({ link, value, a: one, b: other });
      }
      return found;
    };

    const spec = (found) => {
      const drawn = structuredClone(given.picture);
      const room = (document.getElementById("network-view").clientWidth || 800) - 8;
      const known = { room, mode: mode(), dark: dark.matches };
      for (const signal of drawn.signals) {
        if (signal.name in known) signal.value = known[signal.name];
      }
      for (const row of found) {
        const node = Math.floor(row.link / ports);
        const [dx, dy] = given.stubs[row.link % ports];
        Object.assign(row, {
          cx: given.x[node], cy: given.y[node], plane: given.plane[node], dx, dy,
          name: label(row.link),
        });
      }
      drawn.data[0].values = found;
      return drawn;
    };

    const told = document.getElementById("pairs");
    const tellPairs = (link) => {
      const chosen = Number(mode() === "b" ? second.value : first.value);
      const known = pairs[chosen];
      const head = `Link ${label(link)} under ${given.names[chosen]}: busy ` +
        `${(100 * share(chosen, link)).toFixed(1)} % of the time.`;
      const list = document.createElement("ul");
      const tell = (text) => {
        list.append(Object.assign(document.createElement("li"), { textContent: text }));
      };
      for (let k = 0; known && k < given.pairs_a_link; k++) {
        const at = link * given.pairs_a_link + k;
        if (known.ends[2 * at] < 0) break;
        tell(`task ${known.ends[2 * at]} to task ${known.ends[2 * at + 1]}: ` +
          amount(known.bytes[at]));
      }
      given.parts.forEach((part, k) => {
        const at = (chosen * given.parts.length + k) * nLinks + link;
        const busy = (100 * parts[at]) / given.steps;
        if (busy) tell(`${part}: busy ${busy.toFixed(1)} % of the time`);
      });
      const kept = Object.keys(pairs).map((i) => given.names[i]);
      const words = parts ? (list.childElementCount ? "It works for:" : "Nothing is sent over it.")
        : known ? (list.childElementCount ? "Task pairs that send most over it:"
          : "Nothing is sent over it.")
          : kept.length ? `Task pairs are kept for: ${kept.join(", ")}.`
            : "Packets choose their way here: no task pair stands behind one link alone.";
      told.replaceChildren(Object.assign(document.createElement("p"), { textContent: head }),
        Object.assign(document.createElement("p"), { textContent: words }), list);
    };

    const hottest = document.getElementById("hottest");
    const listHottest = (found) => {
      const most = [...found].sort((p, q) => Math.abs(q.value) - Math.abs(p.value)).slice(0, 10);
      hottest.replaceChildren(...most.map((row) => {
        const item = document.createElement("li");
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = `${row.name}: A ${(100 * row.a).toFixed(1)} %, ` +
          `B ${(100 * row.b).toFixed(1)} %`;
        button.addEventListener("click", () => tellPairs(row.link));
        item.append(button);
        return item;
      }));
    };

    const draw = async () => {
      slider.value = first.value;
      const found = rows();
      const { view } = await vegaEmbed("#network-view", spec(found), options("canvas"));
      view.addEventListener("click", (_, item) => {
        if (item?.datum?.link !== undefined) tellPairs(item.datum.link);
      });
      listHottest(found);
      document.getElementById("compared").textContent =
        `A: ${given.names[first.value]}. B: ${given.names[second.value]}.`;
      document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
    };
    slider.addEventListener("input", () => { first.value = slider.value; draw(); });
    for (const control of document.querySelectorAll("#network-controls select, input[name=shown]")) {
      control.addEventListener("change", draw);
    }
    document.redraw = draw;
    await draw();
  };

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected: copy it with the keyboard";
      }
    });
  }
  const all = async () => {
    await drawCharts();
    await network();
    document.body.dataset.ready = "yes";
  };
  dark.addEventListener("change", async () => { await drawCharts(); await document.redraw?.(); });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) { width = innerWidth; document.redraw?.(); }
  });
  all();
})();
