//go:build !linux || !(amd64 || arm64)

package launch

// Main returns an exit code for misuse: there is no launcher on this system.
func Main([]string) int { return 2 }
