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

declare const tools: {
  readonly git: {
    /** Show the state. */
    status(...words: (string | number | Record<string, unknown>)[]): Command<unknown>;
  };
  readonly github: {
    /**
     * Create an issue.
     *
     * It *\/ ends """ nothing \.
     */
    create_issue(values: {
      /** names of labels *\/ */
      labels?: Array<string>;
      title: string;
      state?: "open" | "closed" | null | true | 1;
      ratio?: 0.5 | "all";
      who?: {
        login?: string;
        boss?: {
          login?: string;
          boss?: {
            login?: unknown;
            boss?: unknown;
          };
        };
      };
    }): Promise<{
      number: number;
      "a b"?: string | null;
      pair?: [string, number];
    }>;
    delete(values?: Record<string, unknown>): Promise<unknown>;
    /** Its name is a keyword. */
    import(values?: Record<string, unknown>): Promise<unknown>;
  };
  readonly my_files: {
    /**
     * Read.
     * Tool my-files:read.all.
     */
    read_all(values?: {
      from?: number;
      kind?: "x";
    }): Promise<Record<string, boolean | ({
      n?: number;
    }) & (Record<string, unknown>)>>;
  };
  readonly odd: {
    schema(values?: Record<string, unknown>): Promise<unknown>;
  };
};
declare const mcp: {
  readonly github: typeof tools.github;
};
declare const cli: {
  (program: string): Record<string, (...words: (string | number | Record<string, unknown>)[]) => Command<unknown>>;
  readonly git: typeof tools.git;
};
declare const git: typeof tools.git;
declare const github: typeof tools.github;
