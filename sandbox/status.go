package sandbox

// Status describes an engine or runtime and what it can do on this machine.
type Status struct {
	Name      string   `json:"name"`
	Languages []string `json:"languages"`
	Probe
}
