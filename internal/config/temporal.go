package config

// Temporal configures the Temporal service that runs workflows, and what its workers share.
type Temporal struct {
	// Address is HOST:PORT of its frontend (127.0.0.1:7233).
	Address string `yaml:"address,omitempty"`
	// Namespace is the namespace (default), and Queue the task queue of the workers
	// (toolroom).
	Namespace string `yaml:"namespace,omitempty"`
	Queue     string `yaml:"queue,omitempty"`
	// Secret is a reference to the secret, of at least 32 bytes, with which rooms and
	// workers seal the data that Temporal stores. Without it there are no workflows.
	Secret string `yaml:"secret,omitempty"`
	// CA is a file with the certificates that must have signed the server's; Cert and Key
	// are the files of the client certificate. Without CA and Cert there is no TLS.
	CA   string `yaml:"ca,omitempty"`
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// ServerName is the name in the server's certificate, if it differs from the host of
	// Address.
	ServerName string `yaml:"server_name,omitempty"`
}

func (c checker) checkTemporal(path string, t Temporal) {
	if t == (Temporal{}) {
		return
	}
	c.requireSecretRef(path+".secret", t.Secret)
	if (t.Cert == "") != (t.Key == "") {
		c.addProblem(path+".cert", "cert and key must be set together", "set both cert and key")
	}
}
