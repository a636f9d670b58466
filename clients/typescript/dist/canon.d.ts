/**
 * Names a call. Two calls have one digest exactly if they say the same. Throws TypeError for what the server does
 * not read either: NaN, -0, NUL, unpaired surrogates, what is not JSON.
 */
export declare function digest(tool: string, args: unknown): string;
/** The RFC 8785 form of a JSON value. */
export declare function canonical(value: unknown): string;
