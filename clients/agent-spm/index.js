// Holdpoint as a plugin of Agent-SPM. beforeCheck proposes the call, waits for people
// if it is told to, and redeems the token: only then is the decision ALLOW, so that
// protect() runs the function. afterExecution reports what became of it.
//
// Whatever goes wrong is a DENY. A call that waits is blocked with the approval's
// link; the same call, tried again, goes on with the same approval.

const waiting = { wait: 25, pause: 250, tries: 3 };

const deny = (code, message) => ({ decision: { outcome: 'DENY', reasons: [{ code, message }] } });

// canonical writes a value so that the order of an object's members makes no difference.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map((v) => canonical(v ?? null)).join()}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).filter((name) => value[name] !== undefined).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
}

export function holdpoint({ url, key, waitMs = 0, timeoutMs = 10_000, onError = () => {}, fetch: send = fetch }) {
  if (!url || !key) throw new TypeError('holdpoint: url and key are required');
  const base = url.replace(/\/+$/, '');
  const open = new Map(); // call → id of the approval that it waits for
  const running = new Map(); // request_id → id of the approval that was redeemed for it

  async function once(method, path, body, headers, holdMs = 0) {
    const response = await send(base + path, {
      method, redirect: 'error', signal: AbortSignal.timeout(timeoutMs + holdMs),
      headers: { Authorization: `Bearer ${key}`, Accept: 'application/json', ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: response.status, body: await response.json() };
  }

  // post sends the very same request again when its answer is lost: it is done once.
  async function post(path, body, headers = {}) {
    const id = crypto.randomUUID();
    for (let left = waiting.tries; ; left--) {
      try {
        const answer = await once('POST', path, body, { 'Idempotency-Key': id, ...headers });
        if (answer.status !== 503 || left <= 1) return answer;
      } catch (error) {
        if (left <= 1) throw error;
      }
      await new Promise((done) => setTimeout(done, waiting.pause));
    }
  }

  async function propose(request, call) {
    const id = open.get(call);
    if (id) {
      const seen = await once('GET', `/v1/approvals/${encodeURIComponent(id)}`);
      if (seen.status === 200) return { approval: seen.body };
      open.delete(call);
    }
    const answer = await post('/v1/tool-calls/check', request, { Prefer: 'token' });
    if (answer.status !== 200 && answer.status !== 202) return { problem: answer.body };
    return { decision: answer.body.decision, approval: answer.body.approval, allowed: answer.body.allowed === true, over: answer.status === 200 };
  }

  async function settle(approval) {
    const until = Date.now() + waitMs;
    while (approval.status === 'pending' && Date.now() < until) {
      const hold = Math.max(1, Math.min(waiting.wait, Math.ceil((until - Date.now()) / 1000)));
      const seen = await once('GET', `/v1/approvals/${encodeURIComponent(approval.id)}?wait=${hold}`, undefined, {}, hold * 1000);
      if (seen.status !== 200) return { ...approval, status: 'unreadable' };
      approval = seen.body;
    }
    return approval;
  }

  async function check(request) {
    const { tool_name, tool_args } = request.action;
    const call = canonical([request.agent.agent_id, request.agent.environment ?? null, tool_name, tool_args]);
    const { problem, decision, approval: proposed, allowed, over } = await propose(request, call);
    if (problem) return deny(problem.code ?? 'HOLDPOINT_REFUSED', problem.detail ?? 'Holdpoint turned the request away.');
    if (over && !allowed) return { decision: decision.outcome === 'ALLOW' ? deny('HOLDPOINT_REFUSED', 'The call is not allowed.').decision : decision };
    if (!proposed) return deny('HOLDPOINT_NO_TOKEN', 'Holdpoint gave no token for the call.');
    open.set(call, proposed.id);
    const approval = await settle(proposed);
    if (approval.status === 'pending') {
      const outcome = decision && decision.outcome !== 'ALLOW' ? decision.outcome : 'REQUIRE_APPROVAL';
      return { decision: { outcome, reasons: [{ code: 'HOLDPOINT_WAITING', message: `The call waits for people: ${approval.links?.review ?? approval.id}. Try the same call again.` }] } };
    }
    if (approval.status === 'unreadable') return deny('HOLDPOINT_UNREADABLE', 'The approval cannot be read now. Try the same call again.');
    open.delete(call); // whatever comes now, it ends this approval for us
    if (approval.status !== 'approved') return deny(`HOLDPOINT_${approval.status.toUpperCase()}`, approval.reasons?.[0]?.message ?? `The approval is ${approval.status}.`);
    if (!approval.resumption_token) return deny('HOLDPOINT_NO_TOKEN', 'The approval has no token: its call may have run before.');
    const redeemed = await post('/v1/tokens/redeem', { token: approval.resumption_token, tool_name, arguments: tool_args });
    if (redeemed.status !== 200 || redeemed.body.redeemed !== true) return deny(redeemed.body.code ?? 'HOLDPOINT_REFUSED', redeemed.body.detail ?? 'The token was refused.');
    const constraints = redeemed.body.constraints ?? {};
    if (typeof constraints !== 'object' || Array.isArray(constraints)) {
      await post('/v1/executions', { approval_id: redeemed.body.approval_id, outcome: 'failed' });
      return deny('HOLDPOINT_UNREADABLE', 'The call is permitted under constraints that cannot be read.');
    }
    running.set(request.request_id, redeemed.body.approval_id);
    return { decision: { outcome: 'ALLOW', reasons: [{ code: 'HOLDPOINT_REDEEMED', message: `Permitted once, by ${redeemed.body.approval_id}.` }], ...(Object.keys(constraints).length ? { constraints } : {}) } };
  }

  return {
    name: 'holdpoint',
    failOpen: false,
    async beforeCheck({ request }) {
      try {
        return await check(request);
      } catch (error) {
        return deny('HOLDPOINT_UNAVAILABLE', `Holdpoint could not be asked: ${error.message}`);
      }
    },
    async afterExecution({ request, error }) {
      const approval_id = running.get(request.request_id);
      if (!approval_id) return;
      running.delete(request.request_id);
      try {
        const answer = await post('/v1/executions', { approval_id, outcome: error === undefined ? 'succeeded' : 'failed' });
        if (answer.status !== 200) throw new Error(answer.body.detail ?? `status ${answer.status}`);
      } catch (failure) {
        onError(new Error(`holdpoint: the outcome of ${approval_id} could not be reported: ${failure.message}`));
      }
    },
  };
}

export function refuseAll(now = new Date()) {
  const expires = new Date(now);
  expires.setUTCFullYear(expires.getUTCFullYear() + 10);
  return { version: '1', generated_at: now.toISOString(), expires_at: expires.toISOString(), rules: [], defaults: { outcome: 'DENY' } };
}
