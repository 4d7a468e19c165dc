package app

// warnOfProxies warns if the environment names a proxy. Toolroom uses only the proxy of the
// config, so that all rules for outgoing connections are in one place.
func (a *App) warnOfProxies() {
	if a.Config().Egress.Proxy != "" {
		return
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if _, set := a.lookupEnv(name); set {
			a.log.Warn("the proxy of the environment is ignored; to use it, write in toolroom.yaml: egress: {proxy: URL}", "variable", name)
			return
		}
	}
}
