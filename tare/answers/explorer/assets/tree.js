// A call tree as an icicle: the root above, and every node as wide as its share.
const NODE_HEIGHT = 20;
const THINNEST = 1;
const CHARACTER = 6.7;
const MOST_LISTED = 12;
const MOST_PROGRAMS = 100;
const LEAST_LISTED = 0.001;
const shownTree = { tree: null, weight: 0, children: [], own: [], top: 0, current: 0, found: "", spans: [] };

const treesOf = (managers) => {
  const programs = shownPrograms();
  const results = shownResults();
  return data.trees.filter((tree) => programs.includes(tree.program) && results.includes(tree.result) && managers.includes(tree.manager));
};
const treeName = (tree) =>
  `${tree.title}, under ${data.managers[tree.manager]}${data.results.length > 1 ? `, in ${data.results[tree.result].name}` : ""}`;

const drawTrees = (managers) => {
  const trees = treesOf(managers);
  at("tree-part").hidden = !trees.length;
  at("tree-one").hidden = !asked.program;
  at("tree-programs").replaceChildren(...(asked.program ? [] : treePrograms(trees)));
  if (!trees.length || !asked.program) return;
  const chosen = trees.find((tree) => treeName(tree) === asked.tree) ?? trees[0];
  const select = at("tree-choice");
  select.replaceChildren(...trees.map((tree) => h("option", { value: treeName(tree), selected: tree === chosen }, treeName(tree))));
  const weight = Math.min(Number(asked.weight) || 0, chosen.weights.length - 1);
  at("weight-choice").replaceChildren(...chosen.weights.map((each, number) =>
    h("option", { value: number, selected: number === weight }, each.title)));
  if (shownTree.tree !== chosen || shownTree.weight !== weight) plantTree(chosen, weight);
  drawTree();
};
const treePrograms = (trees) => {
  const programs = [...new Set(trees.map((tree) => tree.program))];
  const link = (program) => h("button", { type: "button", class: "link", onclick: () => openProgram(program) }, shortName(data.programs[program], 90));
  return ["Recorded of:", ...programs.slice(0, MOST_PROGRAMS).map(link),
    programs.length > MOST_PROGRAMS ? `and ${counted(programs.length - MOST_PROGRAMS, "other program")}` : ""];
};
const plantTree = (tree, weight) => {
  const totals = tree.values[weight];
  const children = tree.parents.map(() => []);
  const own = [...totals];
  tree.parents.forEach((parent, node) => {
    if (parent < 0) return;
    children[parent].push(node);
    own[parent] -= totals[node];
  });
  for (const each of children) each.sort((a, b) => totals[b] - totals[a]);
  Object.assign(shownTree, { tree, weight, children, own, top: 0, current: 0 });
};
const frameOf = (node) => shownTree.tree.frames[shownTree.tree.names[node]];
const totalOf = (node) => shownTree.tree.values[shownTree.weight][node];
const nodeText = (node) => {
  const { unit, title } = shownTree.tree.weights[shownTree.weight];
  const own = shownTree.own[node];
  const share = totalOf(0) ? totalOf(node) / totalOf(0) : 0;
  return `${frameOf(node)}: ${formatValue(totalOf(node), unit)} ${title}, ${formatShare(share)} of all` +
    (shownTree.children[node].length && own > 0 ? `; ${formatValue(own, unit)} of it in no call below` : "");
};
const isSought = (node) => shownTree.found !== "" && frameOf(node).toLowerCase().includes(shownTree.found);

// Where each node goes that is wide enough: node, left, width, depth; the path to the top first.
const spansFrom = (top, width) => {
  const path = [];
  for (let node = shownTree.tree.parents[top]; node >= 0; node = shownTree.tree.parents[node]) path.unshift(node);
  const spans = path.map((node, depth) => [node, 0, width, depth]);
  const pending = totalOf(top) > 0 ? [[top, 0, width, path.length]] : [];
  while (pending.length) {
    const span = pending.pop();
    spans.push(span);
    const [node, left, wide, depth] = span;
    let x = left;
    for (const child of shownTree.children[node]) {
      const share = (wide * totalOf(child)) / totalOf(node);
      if (share >= THINNEST) pending.push([child, x, share, depth + 1]);
      x += share;
    }
  }
  return spans;
};
const drawTree = () => {
  const frame = at("tree");
  const width = Math.max(300, frame.clientWidth);
  shownTree.spans = spansFrom(shownTree.top, width);
  const depth = Math.max(...shownTree.spans.map((span) => span[3])) + 1;
  const ancestors = shownTree.spans.findIndex(([node]) => node === shownTree.top);
  const nodes = shownTree.spans.map(([node, x, wide, level], number) => s("g", {
    class: `node shade-${(level + (shownTree.children[shownTree.tree.parents[node]]?.indexOf(node) ?? 0)) % 3}${isSought(node) ? " found" : ""}${number < ancestors ? " above" : ""}`,
    "data-node": node,
  },
    s("rect", { x, y: level * NODE_HEIGHT, width: Math.max(0.5, wide - 0.5), height: NODE_HEIGHT - 1 }),
    wide > 4 * CHARACTER ? s("text", { x: x + 4, y: level * NODE_HEIGHT + 14 }, shorten(frameOf(node), Math.floor((wide - 8) / CHARACTER))) : null));
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${depth * NODE_HEIGHT}`, width, height: depth * NODE_HEIGHT, tabindex: 0, role: "application",
    "aria-roledescription": "flame graph",
    "aria-label": `${treeName(shownTree.tree)}: ${shownTree.tree.weights[shownTree.weight].title}. Arrow keys go from call to call, Enter enlarges one, Escape shows all. The table below has the heaviest.`,
  }, ...nodes);
  const nodeOf = (event) => Number(event.target.closest?.("[data-node]")?.dataset.node ?? -1);
  svg.addEventListener("pointermove", (event) => {
    const node = nodeOf(event);
    showTip(node < 0 ? "" : nodeText(node), event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", () => showTip(""));
  svg.addEventListener("click", (event) => { if (nodeOf(event) >= 0) enlarge(nodeOf(event)); });
  svg.addEventListener("keydown", treeKey);
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) goTo(shownTree.current); });
  const hadFocus = frame.contains(document.activeElement);
  frame.replaceChildren(svg);
  if (hadFocus) svg.focus();
  at("whole").hidden = shownTree.top === 0;
  at("tree-found").textContent = shownTree.found === "" ? "" : foundText();
  drawHeaviest();
};
const enlarge = (node) => {
  shownTree.top = node;
  shownTree.current = node;
  showTip("");
  drawTree();
};
const goTo = (node) => {
  const svg = at("tree").firstElementChild;
  svg.querySelector(".current")?.classList.remove("current");
  const drawn = svg.querySelector(`[data-node="${node}"]`);
  if (!drawn) return;
  shownTree.current = node;
  drawn.classList.add("current");
  at("tree-current").textContent = nodeText(node);
};
const treeKey = (event) => {
  const { current, children, tree } = shownTree;
  const beside = (step) => {
    const level = shownTree.spans.find(([node]) => node === current)?.[3];
    const row = shownTree.spans.filter((span) => span[3] === level).sort((a, b) => a[1] - b[1]).map(([node]) => node);
    return row[row.indexOf(current) + step] ?? current;
  };
  const goals = {
    ArrowUp: () => goTo(Math.max(0, tree.parents[current])),
    ArrowDown: () => goTo(children[current][0] ?? current),
    ArrowLeft: () => goTo(beside(-1)),
    ArrowRight: () => goTo(beside(1)),
    Enter: () => enlarge(current),
    Escape: () => enlarge(0),
  };
  if (!goals[event.key]) return;
  event.preventDefault();
  goals[event.key]();
};

// The share of all that lies under calls whose name was searched for, none counted twice.
const foundText = () => {
  let share = 0;
  let calls = 0;
  const within = shownTree.tree.parents.map(() => false);
  shownTree.tree.parents.forEach((parent, node) => {
    const inside = parent >= 0 && within[parent];
    const matches = isSought(node);
    within[node] = inside || matches;
    if (matches) calls += 1;
    if (matches && !inside && totalOf(0)) share += totalOf(node) / totalOf(0);
  });
  return `${counted(calls, "call")}, ${formatShare(share)} of all`;
};

// What each function holds itself and with what it calls, where a recursive call counts once.
const drawHeaviest = () => {
  const { tree, own } = shownTree;
  const { unit } = tree.weights[shownTree.weight];
  const sums = new Map();
  const pending = [[0, new Set()]];
  while (pending.length) {
    const [node, above] = pending.pop();
    const name = tree.names[node];
    const sum = sums.get(name) ?? { own: 0, total: 0 };
    sums.set(name, sum);
    sum.own += Math.max(0, own[node]);
    if (!above.has(name)) sum.total += totalOf(node);
    const below = above.has(name) ? above : new Set(above).add(name);
    for (const child of shownTree.children[node]) pending.push([child, below]);
  }
  const heaviest = [...sums].filter(([, sum]) => sum.own >= LEAST_LISTED * totalOf(0)).sort((a, b) => b[1].own - a[1].own).slice(0, MOST_LISTED);
  const cells = (value) => [h("td", { class: "n" }, formatValue(value, unit)), h("td", { class: "n quiet" }, totalOf(0) ? formatShare(value / totalOf(0)) : "–")];
  at("heaviest").replaceChildren(h("table", {},
    h("thead", {}, h("tr", {}, ["call", "itself", "share", "with what it calls", "share"].map((text, place) => h("th", { scope: "col", class: place ? "n" : null }, text)))),
    h("tbody", {}, heaviest.map(([name, sum]) => h("tr", {}, h("th", { scope: "row" }, tree.frames[name]), cells(sum.own), cells(sum.total))))));
};
