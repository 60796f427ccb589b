// Fits the Bradley-Terry scores again, by minorisation-maximisation (Hunter 2004), and shows them.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const scored = data.candidates.filter(([, score]) => score !== null);
const places = new Map(scored.map(([id], place) => [id, place]));
const n = scored.length;
const points = new Float64Array(n);
const games = Array.from({ length: n }, () => new Float64Array(n));
for (const [left, right, share, weight] of data.votes) {
  const [a, b] = [places.get(left), places.get(right)];
  if (a === undefined || b === undefined) continue;
  points[a] += weight * share;
  points[b] += weight * (1 - share);
  games[a][b] += weight;
  games[b][a] += weight;
}
let strengths = new Float64Array(n).fill(1);
for (let round = 0, moved = 1; round < 20000 && moved > 1e-10; round++) {
  const next = strengths.map((own, a) => {
    let sum = 0;
    for (let b = 0; b < n; b++) if (games[a][b]) sum += games[a][b] / (own + strengths[b]);
    return points[a] / sum;
  });
  const mean = Math.exp(next.reduce((sum, one) => sum + Math.log(one), 0) / n);
  moved = 0;
  for (let a = 0; a < n; a++) {
    next[a] /= mean;
    moved = Math.max(moved, Math.abs(Math.log(next[a] / strengths[a])));
  }
  strengths = next;
}
let furthest = 0;
scored.forEach(([id, score], place) => {
  const again = data.center + data.scale * Math.log10(strengths[place]);
  furthest = Math.max(furthest, Math.abs(again - score));
  document.getElementById(`again-${id}`).textContent = again.toFixed(1);
});
document.getElementById("says").textContent = n
  ? `Computed again in this page: the largest difference from a published score is ${furthest.toFixed(2)} Elo.`
  : "There are no scores to compute again yet.";
