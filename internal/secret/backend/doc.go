// Package backend implements [secret.Backend] for the places where organisations
// already keep secrets: environment variables, programs such as password managers,
// the keyring of the operating system, Kubernetes, and HashiCorp Vault or OpenBao.
package backend

// maxResponse is the largest response of a server, in bytes. A Kubernetes secret has
// at most 1 MiB, in base64.
const maxResponse = 4 << 20
