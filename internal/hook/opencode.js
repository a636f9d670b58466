// Written by “holdpoint connect opencode”, which writes it anew: nothing else in it is kept.
import { spawn } from "node:child_process"

const holdpoint = HOLDPOINT

// ask runs a line for a shell. A call runs only if that has ended with 0, in time.
function ask(line, call) {
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", line], { stdio: ["pipe", "ignore", "pipe"], detached: true })
    // end ends all that the line has started: a program that went on might spend a token for a call that does not run.
    const end = () => {
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {} // it has ended
    }
    process.once("exit", end)
    const over = () => {
      clearTimeout(timer)
      process.off("exit", end)
    }
    const no = (why) => {
      over()
      reject(new Error(why))
    }
    const timer = setTimeout(() => {
      end()
      no("Holdpoint: there was no answer in time. The call does not run.")
    }, holdpoint.timeout)
    let why = ""
    child.stderr.setEncoding("utf8").on("data", (text) => (why += text))
    child.stdin.on("error", () => {}) // a program that has ended reads no more
    child.on("error", (error) => no(`Holdpoint: ${error.message}. The call does not run.`))
    child.on("close", (code) => {
      over()
      if (code === 0) resolve()
      else no(why.trim() || "Holdpoint: the call does not run.")
    })
    child.stdin.end(JSON.stringify(call))
  })
}

// freeze keeps plugins that come after this one from changing what was permitted.
function freeze(value) {
  if (value === null || typeof value !== "object" || Object.isFrozen(value)) return
  Object.freeze(value)
  Object.values(value).forEach(freeze)
}

export default async ({ client }) => {
  const running = new Map() // calls that were permitted and have not ended, by their ids
  const reports = new Set()

  // report tells what became of a call. That it cannot is noted, and nothing else: the call has run.
  const report = (event, call) => {
    running.delete(call.tool_use_id)
    const told = ask(holdpoint.after, { ...call, hook_event_name: event })
      .catch((error) => client.app.log({ body: { service: "holdpoint", level: "error", message: error.message } }))
      .catch(() => {})
      .finally(() => reports.delete(told))
    reports.add(told)
    return told
  }
  const named = (input, args) => ({ session_id: input.sessionID, tool_use_id: input.callID, tool_name: input.tool, tool_input: args ?? {} })

  return {
    // “holdpoint connect opencode --managed” leaves opencode no model but one of a provider that there is not, for as long as this has not run.
    config: async (config) => {
      if (config.enabled_providers?.[0] === "holdpoint") delete config.enabled_providers
    },
    "tool.execute.before": async (input, output) => {
      freeze(output.args)
      const call = named(input, output.args)
      await ask(holdpoint.before, { ...call, hook_event_name: "tool.execute.before" })
      running.set(input.callID, call)
    },
    "tool.execute.after": async (input, output) => {
      const call = running.get(input.callID) ?? named(input, input.args)
      await report(output?.metadata?.exit ? "tool.execute.error" : "tool.execute.after", call)
    },
    // A tool that throws has no tool.execute.after.
    event: async ({ event }) => {
      const part = event.type === "message.part.updated" ? event.properties.part : undefined
      const call = part?.type === "tool" && part.state.status === "error" && running.get(part.callID)
      if (call) await report("tool.execute.error", { ...call, is_interrupt: Boolean(part.state.metadata?.interrupted) })
    },
    dispose: async () => {
      await Promise.all(reports)
    },
  }
}
