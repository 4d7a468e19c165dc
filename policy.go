package toolroom

// Verdict is a policy decision about a call.
type Verdict string

// The verdicts, from the most permissive to the strictest.
const (
	VerdictAllow   Verdict = "allow"
	VerdictConfirm Verdict = "confirm" // a person must approve
	VerdictDeny    Verdict = "deny"
)

// PolicyStep is the verdict of one layer of the policy.
type PolicyStep struct {
	Layer  string  `json:"layer"`
	Effect Verdict `json:"effect"`
	// Rule names the rule as the config writes it, for example tools.deny[0]: "browser.*".
	Rule string `json:"rule"`
	// Because is the effect of the call that the rule matched, if the rule is about
	// effects. It may contain arguments and therefore secrets.
	Because Effect `json:"because,omitzero"`
	// Isolation is the weakest isolation that the layer permits, and Engine the only engine
	// or runtime; empty means any.
	Isolation Isolation `json:"isolation,omitempty"`
	Engine    string    `json:"engine,omitempty"`
	// Hint says how to change the outcome, if the layer knows.
	Hint string `json:"hint,omitempty"`
	// CLIHint says the same to a person at the command line.
	CLIHint string `json:"-"`
}

// Isolation names what a tool runs in: a strength (none, process, container, gvisor, vm) or
// a driver, which has the strength of its kind. Empty is none.
type Isolation string

// The strengths, from the weakest on.
const (
	IsolationNone      Isolation = "none"
	IsolationProcess   Isolation = "process"
	IsolationContainer Isolation = "container"
	IsolationGVisor    Isolation = "gvisor"
	IsolationVM        Isolation = "vm"
)
