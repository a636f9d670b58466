// Stands in for Agent-SPM's protect(): what it calls of a plugin, in its order; or is
// Agent-SPM's own, as AGENT_SPM names it. Each line of standard input is a call; what
// became of it is a line of standard output.
import { createInterface } from 'node:readline';
import { randomUUID } from 'node:crypto';
import { holdpoint, refuseAll } from '../../../clients/agent-spm/index.js';

const problems = [];
const plugin = holdpoint({ url: process.argv[2], key: process.env.HOLDPOINT_TEST_KEY, onError: (e) => problems.push(e.message) });
const agent = process.env.HOLDPOINT_TEST_AGENT;
let runs = 0;

// Agent-SPM itself, of which each tool is behind protect() with our plugin.
const { AgentSecurity } = process.env.AGENT_SPM ? await import(process.env.AGENT_SPM).then((m) => m.default ?? m) : {};
async function protect(use, tool, args, fails, dies) {
  const security = new AgentSecurity({ policyBundle: refuseAll(), plugins: [use], onError: (e) => problems.push(e.message) });
  let ran = false;
  const run = security.protect(tool, async () => {
    ran = true;
    runs++;
    if (dies) process.kill(process.pid, 'SIGKILL');
    if (fails) throw new Error('no');
  }, { agentId: agent, environment: 'dev', extractToolArgs: () => args });
  try {
    await run();
  } catch (error) {
    if (!ran) return { ran, decision: error.decision };
  }
  return { ran, decision: { outcome: 'ALLOW' } };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { tool, args, fails, elsewhere, dies } = JSON.parse(line);
  const use = elsewhere ? holdpoint({ url: elsewhere, key: 'hp_x' }) : plugin;
  if (AgentSecurity) {
    process.stdout.write(JSON.stringify({ ...(await protect(use, tool, args, fails, dies)), runs, problems }) + '\n');
    continue;
  }
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
