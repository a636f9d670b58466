/** One event of a stream. */
export interface Message {
    event: string;
    id: string;
    data: string;
}
/** The events of a stream. One that is cut off before its blank line is none. Throws for bytes that are no UTF-8. */
export declare function messages(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Message>;
