// toolroom:
//   cases:
//     - {name: one greeting, arguments: {who: Ada}, expect: "Hello, Ada!"}

/**
 * Greet someone.
 *
 * @param who Who to greet.
 * @param times How often.
 */
export default function main(who: string, times = 1): string {
  return Array(times).fill(`Hello, ${who}!`).join(" ");
}
