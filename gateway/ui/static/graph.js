// The drawing of the graph. What it shows stands in the tables below it too, and whatever expands one expands both.
"use strict";
(() => {
  const place = document.querySelector("#drawing");
  if (!place) return;
  const told = document.querySelector("#graph-told");
  const words = JSON.parse(document.body.dataset.words ?? "{}");
  const t = (text) => words[text] ?? text;
  const MOST = 500; // nodes; more than that nobody can read
  const MANY = 80; // nodes from which a layout by forces takes too long

  // A colour for each label, the most frequent ones first; labels beyond them share the last one.
  const COLORS = ["#0d6b62", "#b3541e", "#5a4fb0", "#a5326b", "#3b6fb5", "#6b7a1f", "#8a5a2b", "#5a6067"];
  const labels = [];
  const colorOf = (label) => COLORS[Math.min(Math.max(labels.indexOf(label), 0), COLORS.length - 1)];
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const style = () => [
    {
      selector: "node",
      style: {
        "background-color": (node) => colorOf(node.data("label")), width: (node) => 14 + 3 * Math.min(node.degree(), 8),
        height: (node) => 14 + 3 * Math.min(node.degree(), 8), label: "data(short)", color: color("--text"),
        "font-size": 12, "text-valign": "bottom", "text-margin-y": 5, "text-wrap": "wrap", "text-max-width": 130,
        "text-background-color": color("--surface"), "text-background-opacity": 0.75, "text-background-padding": 2,
        "min-zoomed-font-size": 7,
      },
    },
    { selector: 'node[kind = "memory"]', style: { shape: "round-rectangle", "background-color": color("--muted") } },
    { selector: "node[?apart]", style: { "background-color": color("--warn"), shape: "diamond" } },
    { selector: "node.start", style: { width: 28, height: 28, "border-width": 3, "border-color": color("--text") } },
    { selector: "node:selected", style: { "border-width": 3, "border-color": color("--accent-strong") } },
    {
      selector: "edge",
      style: {
        width: "mapData(weight, 0, 1, 0.75, 2.25)", "line-color": color("--line-strong"), "curve-style": "bezier",
        label: "data(relation)", "font-size": 9, color: color("--muted"), "text-rotation": "autorotate",
        "text-background-color": color("--page"), "text-background-opacity": 0.8, "min-zoomed-font-size": 8,
        "target-arrow-color": color("--line-strong"),
      },
    },
    { selector: "edge.many", style: { "curve-style": "straight", label: "" } },
    { selector: ".found", style: { "border-width": 4, "border-color": color("--warn") } },
    { selector: ".unfound", style: { opacity: 0.25 } },
    { selector: "edge[?directed]", style: { "target-arrow-shape": "triangle" } },
  ];

  const drawing = cytoscape({ container: place, style: style(), minZoom: 0.1, maxZoom: 3, textureOnViewport: true });
  document.addEventListener("engramq:theme", () => drawing.style(style()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawing.style(style()));

  const cell = (row, kind, text) => {
    const made = row.appendChild(document.createElement(kind));
    made.appendChild(document.createElement("bdi")).textContent = text;
    return made;
  };

  // The legend: each label with its colour and how many nodes have it; a click shows these alone.
  const legend = document.querySelector("#legend");
  const explain = () => {
    const counts = {};
    drawing.nodes().forEach((node) => { counts[node.data("label")] = (counts[node.data("label")] || 0) + 1; });
    labels.splice(0, labels.length, ...Object.keys(counts).sort((one, other) => counts[other] - counts[one]));
    legend.replaceChildren(...labels.map((label) => {
      const link = document.createElement("a");
      link.href = `/ui/graph?label=${encodeURIComponent(label)}`;
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      dot.setAttribute("viewBox", "0 0 10 10");
      dot.setAttribute("class", "dot");
      const circle = dot.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "circle"));
      for (const [name, value] of Object.entries({ cx: 5, cy: 5, r: 5, fill: colorOf(label) })) circle.setAttribute(name, value);
      const text = document.createElement("bdi");
      text.textContent = `${label} ${counts[label]}`;
      link.append(dot, " ", text);
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
    drawing.style(style());
  };

  // What is typed as a node's name stands out in the drawing.
  document.querySelector("[data-find]")?.addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    const hits = drawing.nodes().filter((node) => wanted && (node.data("text") || "").toLowerCase().includes(wanted));
    drawing.nodes().removeClass("found unfound");
    if (!wanted) return;
    drawing.nodes().not(hits).addClass("unfound");
    hits.addClass("found");
    told.textContent = `${hits.length} ${t("of")} ${drawing.nodes().length}`;
  });

  const nodeRows = document.querySelector("#node-rows"); // the whole graph has neither
  const edgeRows = document.querySelector("#edge-rows");
  const listed = new Set([...(nodeRows?.children ?? []), ...(edgeRows?.children ?? [])].map((row) => row.dataset.node || row.dataset.edge));

  const listNode = (node) => {
    if (!nodeRows || listed.has(node.id)) return;
    listed.add(node.id);
    const row = nodeRows.appendChild(document.createElement("tr"));
    row.dataset.node = node.id;
    cell(row, "th", node.text || node.id).scope = "row";
    cell(row, "td", node.label);
    const actions = row.appendChild(document.createElement("td"));
    const more = actions.appendChild(document.createElement("a"));
    more.href = `/ui/graph?${node.more}`;
    more.dataset.more = node.more;
    more.textContent = t("Expand");
    if (node.kind !== "memory") return;
    actions.append(" · ");
    const open = actions.appendChild(document.createElement("a"));
    open.href = `/ui/memories/${encodeURIComponent(node.id)}`;
    open.textContent = t("Open");
  };

  const listEdge = (edge) => {
    if (!edgeRows || listed.has(edge.id)) return;
    listed.add(edge.id);
    edgeRows.querySelector(".none")?.remove();
    const row = edgeRows.appendChild(document.createElement("tr"));
    row.dataset.edge = edge.id;
    const name = (id) => drawing.getElementById(id).data("text") || id;
    cell(row, "td", name(edge.source));
    cell(row, "td", edge.relation);
    cell(row, "td", name(edge.target));
    cell(row, "td", edge.weight.toFixed(2)).className = "num";
  };

  const short = (text) => (text.length > 38 ? `${text.slice(0, 37)}…` : text);

  // Add one step of the graph; what is there stays where it is.
  const add = (found, from) => {
    const around = drawing.getElementById(from).nonempty() ? drawing.getElementById(from).position() : { x: 0, y: 0 };
    const known = new Set(drawing.elements().map((one) => one.id()));
    const room = MOST - drawing.nodes().length;
    const fresh = found.nodes.filter((node) => !known.has(node.id)).slice(0, Math.max(0, room));
    const there = new Set([...known, ...fresh.map((node) => node.id)]);
    const step = (2 * Math.PI) / Math.max(1, fresh.length);
    const radius = 110 + fresh.length * 5;
    drawing.batch(() => {
      drawing.add(fresh.map((node, index) => ({
        group: "nodes",
        data: { ...node, short: short(node.text || node.id) },
        classes: node.id === place.dataset.start ? "start" : "",
        position: { x: around.x + radius * Math.cos(step * index), y: around.y + radius * Math.sin(step * index) },
      })));
      drawing.add(found.edges
        .filter((edge) => !known.has(edge.id) && there.has(edge.source) && there.has(edge.target))
        .map((edge) => ({ group: "edges", data: edge })));
    });
    fresh.forEach(listNode);
    found.edges.filter((edge) => there.has(edge.source) && there.has(edge.target)).forEach(listEdge);
    const left = found.nodes.filter((node) => !there.has(node.id)).length;
    told.textContent = [
      found.told, `${drawing.nodes().length} ${t("nodes")}, ${drawing.edges().length} ${t("edges")}.`,
      left ? `${left} ${t("more are not drawn; the most is")} ${MOST}.` : "",
    ].filter(Boolean).join(" ");
    return fresh.length;
  };

  // Rings around a node, each as full as it can be: takes no time, however many there are.
  const inRings = (from) => {
    let radius = 0, left = 0, room = 1;
    drawing.batch(() => drawing.nodes().sort((one) => (one.id() === from ? -1 : 1)).forEach((node) => {
      if (left === 0) {
        radius += 110;
        room = left = Math.floor((2 * Math.PI * radius) / 40);
      }
      const angle = (2 * Math.PI * left) / room;
      if (node.id() === from) node.position({ x: 0, y: 0 });
      else {
        node.position({ x: radius * Math.cos(angle), y: radius * Math.sin(angle) });
        left -= 1;
      }
    }));
    const zoom = Math.min(drawing.width(), drawing.height()) / (2 * radius + 80);
    drawing.viewport({ zoom, pan: { x: drawing.width() / 2, y: drawing.height() / 2 } });
  };

  const arrange = (from) => {
    const many = drawing.nodes().length > MANY;
    drawing.edges().toggleClass("many", many);
    if (many) inRings(from);
    else drawing.layout({
      name: "cose", animate: false, randomize: false, idealEdgeLength: () => 80, nodeRepulsion: () => 160000,
      nodeOverlap: 30, gravity: 0.6, numIter: 600, padding: 40, fit: true,
    }).run();
  };

  const load = async (address, from) => {
    const response = await fetch(address, { headers: { accept: "application/json" } });
    if (!response.ok || response.redirected) {
      told.textContent = t("What is around it cannot be read now. Load the page again.");
      return;
    }
    const began = performance.now();
    if (add(await response.json(), from)) arrange(from || drawing.nodes().max((node) => node.degree()).ele?.id());
    explain();
    place.dataset.drawn = String(drawing.nodes().length);
    place.dataset.steps = String(Number(place.dataset.steps || 0) + 1);
    place.dataset.took = String(Math.round(performance.now() - began));
  };

  // What was opened stands in the address, so that a bookmark and a reload show the same.
  const opened = new URLSearchParams(location.search).getAll("open");
  const expand = async (id, more) => {
    await load(`/ui/graph/data?${more}`, id);
    const address = new URL(location);
    if (address.searchParams.getAll("open").includes(id) || id === place.dataset.start) return;
    address.searchParams.append("open", id);
    history.replaceState(null, "", address);
  };
  const reopen = async () => {
    for (const id of opened) {
      const node = drawing.getElementById(id);
      if (node.nonempty()) await load(`/ui/graph/data?${node.data("more")}`, id);
    }
  };
  drawing.on("tap", "node", (event) => expand(event.target.id(), event.target.data("more")));
  nodeRows?.addEventListener("click", (event) => {
    const link = event.target.closest("[data-more]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const id = link.closest("[data-node]").dataset.node;
    expand(id, link.dataset.more).then(() => drawing.getElementById(id).select());
  });
  document.querySelector("[data-fit]").addEventListener("click", () => drawing.fit(undefined, 40));
  // How the drawing stands, for tests.
  place.addEventListener("engramq:where", (event) => event.detail(drawing.nodes().map((node) => ({ id: node.id(), ...node.renderedPosition() }))));
  load(place.dataset.source, place.dataset.start).then(reopen);
})();
