package room

// warnOfProxies tells an operator whose environment names a proxy that the
// config must name it: what leaves the machine, and how, is in one place.
func (r *Room) warnOfProxies() {
	if r.Config().Egress.Proxy != "" {
		return
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if _, set := r.lookupEnv(name); set {
			r.log.Warn("the proxy of the environment is not used; name it in toolroom.yaml: egress: {proxy: URL}", "variable", name)
			return
		}
	}
}
