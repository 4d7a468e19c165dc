package guest

// The guest's binary is also the first process of a Kubernetes Pod: it keeps the Pod alive,
// so that guests can be started in it with streams of their own, and reaps orphans. It also
// inspects the Pod from inside, to tell the driver which limits the cluster enforces.

// PodArg makes the guest's binary run as the first process of a Pod; PodInspectArg makes
// it print a [PodInspection].
const (
	PodArg        = "pod"
	PodInspectArg = "look"
)

// PodNodeEnv is the variable with the address of the Pod's node.
const PodNodeEnv = "TOOLROOM_NODE"

// PodInspection describes a Pod as seen from inside.
type PodInspection struct {
	// Interfaces are the network interfaces except the loopback.
	Interfaces []string `json:"interfaces,omitempty"`
	// Reached are the addresses to which a connection could be made; Refused are those
	// that refused it.
	Reached []string `json:"reached,omitempty"`
	Refused []string `json:"refused,omitempty"`
	// Offline means that the standard filter could be installed: no internet sockets.
	Offline bool `json:"offline"`
	// Processes is the number of processes that can exist at once; zero means
	// [MostPodProcesses] or more.
	Processes int `json:"processes,omitempty"`
	// Cgroup is the cgroup version: v1 or v2.
	Cgroup string `json:"cgroup"`
	// Languages are the languages whose interpreters are in the Pod.
	Languages []string `json:"languages,omitempty"`
}

// MostPodProcesses bounds the search for the process limit.
const MostPodProcesses = 1100
