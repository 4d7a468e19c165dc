package lockdown

// use uses up a resource.
func use(args []string) int { return 0 }
