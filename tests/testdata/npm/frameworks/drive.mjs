// Drives the agents of one framework through the cases of a test, each with a client and tools of its own.
//
//   drive.mjs FRAMEWORK begin|resume DIR, with the cases on standard input:
//   [{"name", "calls": [{"id", "name", "args"}], "how", "url", "key", "forced", "wait", "dies"}]
//
// What a case parks at is kept in DIR; resume goes on with it, in another process. Each run of a tool is a line of DIR/runs. What
// came of each case is a line on standard output: {"name", "said"} with what the model was told, {"name", "parked": true}, or
// {"name", "failed"}.
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { Client } from "holdpoint";

const [framework, step, dir] = process.argv.slice(2);
const { begin, resume } = await import(`./${framework}.mjs`);

async function drive({ name, calls, how, url, key, forced, wait, dies }) {
  const run = async ({ word, n }) => {
    appendFileSync(`${dir}/runs`, JSON.stringify({ name, word, n }) + "\n");
    if (dies) process.kill(process.pid, "SIGKILL");
    if (word === "broken") throw new Error("it did not work");
    return `ran ${word} ${n}`;
  };
  const c = { client: new Client({ url, key, firstPause: 10 }), calls, how, run, forced, wait };
  const file = `${dir}/${name}`;
  try {
    const { parked, said } = step === "begin" ? await begin(c) : await resume(c, readFileSync(file, "utf8"));
    if (parked) writeFileSync(file, parked);
    return { name, said, parked: !!parked };
  } catch (error) {
    return { name, failed: String(error.stack) };
  }
}

const cases = JSON.parse(await text(process.stdin));
const say = async (each) => console.log(JSON.stringify(await drive(each)));
await Promise.all(cases.filter((each) => !each.dies).map(say));
for (const each of cases.filter((each) => each.dies)) await say(each);
