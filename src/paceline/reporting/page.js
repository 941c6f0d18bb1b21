// Draws every figure of the page to the width it has, and again when that changes.
const specs = JSON.parse(document.getElementById("specs").textContent);
const charts = [...document.querySelectorAll(".chart")];

function fitted(spec, width) {
  const own = structuredClone(spec);
  delete own.title; // the page has it as a heading, which wraps
  own.background = "transparent";
  const longest = own.usermeta?.longest_label ?? 10;
  own.config ??= {};
  own.config.legend ??= {};
  own.config.legend.columns = Math.max(1, Math.min(6, Math.floor(width / (longest * 7.2 + 40))));
  if (own.facet) {
    const columns = Math.max(1, Math.min(3, Math.floor(width / 240)));
    own.columns = columns;
    own.spec.width = Math.floor((width - 60 - 24 * (columns - 1)) / columns);
    own.spec.height = 130;
  } else {
    own.width = width;
    own.autosize = { type: "fit-x", contains: "padding" };
    if (width < 480 && own.height > 240) own.height = 240;
  }
  return own;
}

async function draw(chart) {
  const width = Math.floor(chart.clientWidth);
  if (!width || chart.drawnAt === width) return;
  chart.drawnAt = width;
  try {
    await vegaEmbed(chart, fitted(specs[chart.dataset.figure], width), {
      renderer: "svg", actions: false, tooltip: { theme: "custom" },
    });
  } catch (error) {
    chart.innerHTML = '<p class="failed">This figure could not be drawn.</p>';
    console.error(chart.dataset.figure, error);
  }
}

async function drawAll() {
  for (const chart of charts) await draw(chart);
  document.documentElement.dataset.drawn = charts.length;
}

let waiting;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 200);
});
for (const details of document.querySelectorAll("details")) {
  details.addEventListener("toggle", drawAll);
}
drawAll();
