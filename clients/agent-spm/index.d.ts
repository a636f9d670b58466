/** A call as Agent-SPM hands it to its plugins. */
export interface Request {
  request_id: string;
  agent: { agent_id: string; [member: string]: unknown };
  action: { tool_name: string; tool_args: Record<string, unknown>; [member: string]: unknown };
  [member: string]: unknown;
}

export interface Decision {
  outcome: 'ALLOW' | 'DENY' | 'REQUIRE_APPROVAL' | 'STEP_UP' | 'REQUIRE_TICKET' | 'REQUIRE_HUMAN';
  reasons: Array<{ code: string; message: string }>;
  approver_role?: string;
  constraints?: Record<string, any>;
}

export interface Options {
  /** Where Holdpoint is, such as https://holdpoint.example.com. */
  url: string;
  /** The agent's API key. */
  key: string;
  /** How long a call may wait for people before it is blocked; 0 when left out. */
  waitMs?: number;
  /** How long one request may take; 10,000 when left out. */
  timeoutMs?: number;
  /** Told of what could not be reported after the tool had run. */
  onError?: (error: Error) => void;
  fetch?: typeof fetch;
}

/** A plugin for `new AgentSecurity({ plugins: [...] })`. It never lets a call through in doubt. */
export interface Plugin {
  readonly name: 'holdpoint';
  readonly failOpen: false;
  beforeCheck(context: { request: Request }): Promise<{ decision: Decision }>;
  afterExecution(context: { request: Request; error?: unknown }): Promise<void>;
}

export function holdpoint(options: Options): Plugin;

/**
 * The policy bundle that belongs beside the plugin: it refuses everything, should the
 * plugin ever be taken away.
 */
export function refuseAll(now?: Date): {
  version: string;
  generated_at: string;
  expires_at: string;
  rules: [];
  defaults: { outcome: 'DENY' };
};
