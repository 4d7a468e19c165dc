// toolroom:
//   cases:
//     - {name: one greeting, arguments: {who: Ada}, expect: "Hello, Ada!"}

/**
 * Greet someone.
 *
 * @param {string} who Who to greet.
 * @param {number} [times=1] How often.
 * @returns {string}
 */
export default function main(who, times = 1) {
  return Array(times).fill(`Hello, ${who}!`).join(" ");
}
