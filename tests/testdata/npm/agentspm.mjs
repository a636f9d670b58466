// Stands in for Agent-SPM's protect(): what it calls of a plugin, in its order. Each
// line of standard input is a call; what became of it is a line of standard output.
import { createInterface } from 'node:readline';
import { randomUUID } from 'node:crypto';
import { holdpoint } from '../../../clients/agent-spm/index.js';

const problems = [];
const plugin = holdpoint({ url: process.argv[2], key: process.env.HOLDPOINT_TEST_KEY, onError: (e) => problems.push(e.message) });
const agent = process.env.HOLDPOINT_TEST_AGENT;
let runs = 0;

for await (const line of createInterface({ input: process.stdin })) {
  const { tool, args, fails, elsewhere, dies } = JSON.parse(line);
  const use = elsewhere ? holdpoint({ url: elsewhere, key: 'hp_x' }) : plugin;
  const request = {
    request_id: randomUUID(), timestamp: new Date().toISOString(),
    agent: { agent_id: agent, name: agent, owner: 'unknown', environment: 'dev' },
    action: { type: 'tool_call', tool_name: tool, tool_args: args }, context: {},
  };
  const { decision } = await use.beforeCheck({ request });
  let ran = false;
  if (decision.outcome === 'ALLOW') {
    ran = true;
    runs++;
    if (dies) process.kill(process.pid, 'SIGKILL');
    await use.afterExecution({ request, decision, ...(fails ? { error: new Error('no') } : { result: 1 }) });
  }
  process.stdout.write(JSON.stringify({ ran, runs, decision, problems }) + '\n');
}
