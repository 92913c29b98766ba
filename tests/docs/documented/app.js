// Makes arrays of small objects, and keeps the newest.
const newest = [];
let sum = 0;
for (let round = 0; round < 300; round++) {
  newest[round % 10] = Array.from({ length: 1000 }, (_, number) => ({ round, number }));
  sum += newest[round % 10][round].number;
}
console.log(sum);
