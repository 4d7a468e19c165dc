// What programs of Toolroom's code mode can call. Made by: toolroom stubs -l ts

/** The error of a tool that failed. */
declare class ToolError extends Error {
  code: string;
  phase: string;
  tool: string;
  retryable: boolean;
  hint: string;
  details?: unknown;
}

/** What a command-line program gives back, with readers of its text. */
interface Command<T> extends Promise<T> {
  text(): Promise<string>;
  lines(): Promise<string[]>;
  json(): Promise<unknown>;
}

interface Handle {
  id: string;
  media_type: string;
  size: number;
}

declare function call_tool(id: unknown, values?: Record<string, unknown>): Promise<unknown>;
declare function run(id: string, values?: Record<string, unknown>): unknown;
declare function run_chain(steps: unknown[]): Promise<unknown>;
declare function search_tools(query: string, options?: number | { limit?: number }): Promise<{ id: string; summary: string; call: string }[]>;
declare function describe_tool(id: unknown, options?: "summary" | "schema" | "full" | { level?: "summary" | "schema" | "full" }): Promise<unknown>;
declare const artifacts: {
  put(name: string, content: unknown, mediaType?: string): Promise<Handle>;
  get(handle: string | Handle): Promise<Uint8Array>;
};
declare const results: {
  get(handle: string | Handle): Promise<unknown>;
};
declare function progress(done: number, total?: number, message?: string): void;
declare function log(message: string, level?: "debug" | "info" | "warning" | "error", fields?: Record<string, unknown>): void;
declare function print(...values: unknown[]): void;
