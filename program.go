package toolroom

import "encoding/json"

// Program is a program for code mode. It can call tools.
type Program struct {
	// Language is python, javascript, typescript, shell, command or wasm.
	Language string `json:"language"`
	Code     string `json:"code,omitempty"`
	// Command is the program and its arguments for language command, and the arguments for
	// shell and wasm.
	Command []string `json:"command,omitempty"`
	// Module is a WebAssembly module for language wasm, plain or compressed with gzip.
	Module []byte `json:"module,omitempty"`
	Stdin  string `json:"stdin,omitempty"`
	// Inputs is a JSON object, whose members the program has as variables.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Session names the caller's session that the program runs in. A new name starts a
	// session.
	Session string `json:"session,omitempty"`

	// Engine and Runtime choose where the program runs; empty leaves it to the room. Profile
	// is dev, standard or hardened, and Image the image for runtimes that have images.
	Engine  string `json:"engine,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	Profile string `json:"profile,omitempty"`
	Image   string `json:"image,omitempty"`
	// Egress lists the hosts that the program may reach: a host, *.domain or address, with
	// :port, or without for ports 443 and 80. If it is set, the sandbox has no other
	// network, whatever the profile.
	Egress []string `json:"egress,omitempty"`

	// Limits: 0 means the configured default, a negative limit is an error, and a limit
	// above the configured maximum is lowered to it.
	TimeoutMS   int64   `json:"timeout_ms,omitempty"`
	CPUMS       int64   `json:"cpu_ms,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	OutputBytes int64   `json:"output_bytes,omitempty"`
	MaxCalls    int     `json:"max_calls,omitempty"`
	PIDs        int     `json:"pids,omitempty"`
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	// BestEffort runs the program even if a limit cannot be enforced; the result lists those
	// that were.
	BestEffort bool `json:"best_effort,omitempty"`
}
