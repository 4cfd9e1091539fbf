// Draws every chart of the page from the specification beside it. Nothing is fetched.
"use strict";
const options = { renderer: "svg", actions: false, tooltip: { theme: "page", disableDefaultStyle: true } };

function save(plot, name) {
  // A file of its own has no style sheet: variables become the colours that they stand for.
  const style = getComputedStyle(document.documentElement);
  const text = new XMLSerializer().serializeToString(plot.querySelector("svg"));
  const solid = text.replace(/var\((--[a-z0-9-]+)[^)]*\)/g, (_, key) => style.getPropertyValue(key).trim());
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([solid], { type: "image/svg+xml" }));
  link.download = name + ".svg";
  link.click();
  URL.revokeObjectURL(link.href);
}

for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const plot = figure.querySelector(".plot");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  vegaEmbed(plot, spec, options).catch((error) => { plot.textContent = "cannot be drawn: " + error; });
  figure.querySelector(".save").addEventListener("click", () => save(plot, figure.dataset.chart));
}
