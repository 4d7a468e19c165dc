// Package pod is the guest's binary as the first process of a Kubernetes Pod: it
// keeps the Pod there, so that the guest proper can be started in it with
// streams of its own, and reaps what others leave. It also looks at the Pod from
// inside, for the driver that wants to know what its cluster holds.
package pod

// Arg is the argument by which a guest's binary knows that it is the first
// process of a Pod, LookArg that it is to print [Facts].
const (
	Arg     = "pod"
	LookArg = "look"
)

// NodeEnv is the variable that has the address of the Pod's node.
const NodeEnv = "TOOLROOM_NODE"

// Facts are what a Pod looks like from inside.
type Facts struct {
	// Interfaces are the network interfaces but the loopback.
	Interfaces []string `json:"interfaces,omitempty"`
	// Reached are the addresses to which a connection could be made, Refused those
	// that answered with a refusal.
	Reached []string `json:"reached,omitempty"`
	Refused []string `json:"refused,omitempty"`
	// Offline says that the standard filter can be put on: no internet sockets.
	Offline bool `json:"offline"`
	// Processes is how many can be there at once, zero if that is [MostProcesses]
	// or more.
	Processes int `json:"processes,omitempty"`
	// Cgroup is the version of the control groups: v1 or v2.
	Cgroup string `json:"cgroup"`
	// Languages are those whose interpreters are there.
	Languages []string `json:"languages,omitempty"`
}

// MostProcesses bounds the search for the limit of processes.
const MostProcesses = 1100
