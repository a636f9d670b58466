// Server-sent events, as far as a client needs them (WHATWG HTML, section 9.2).

/** One event of a stream. */
export interface Message {
  event: string;
  id: string;
  data: string;
}

const MAX_MESSAGE = 8 << 20;

/** The events of a stream. One that is cut off before its blank line is none. Throws for bytes that are no UTF-8. */
export async function* messages(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Message> {
  let event = "", id = "", data: string[] = [], size = 0;
  for await (const line of lines(chunks)) {
    if (line === "") {
      if (data.length) yield { event: event || "message", id, data: data.join("\n") };
      event = "";
      data = [];
      size = 0;
      continue;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    else if (name === "data") {
      data.push(value);
      size += value.length;
      if (size > MAX_MESSAGE) throw new RangeError("an event that is too large");
    } else if (name === "id" && !value.includes("\0")) id = value;
  }
}

/** Lines that have ended, by LF, CR or CRLF, wherever the chunks are broken. */
async function* lines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length > MAX_MESSAGE) throw new RangeError("a line that is too long");
    for (;;) {
      const at = rest.search(/[\r\n]/);
      if (at < 0 || (rest[at] === "\r" && at + 1 === rest.length)) break; // its LF may be in the next chunk
      yield rest.slice(0, at);
      rest = rest.slice(at + (rest.startsWith("\r\n", at) ? 2 : 1));
    }
  }
}
