package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

const (
	// keysFresh is how long fetched keys are used before they are fetched again. For
	// an unknown key they are fetched at most every keysPause.
	keysFresh = 10 * time.Minute
	keysPause = 30 * time.Second
	// keysStale is how long keys are used while the issuer cannot be reached.
	keysStale = 24 * time.Hour
	// maxDocument is the maximum size of an issuer's response, in bytes.
	maxDocument = 1 << 20
)

// keySet holds the keys of one issuer.
type keySet struct {
	issuer string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	keys    []jwk
	fetched time.Time // when the keys were fetched
	tried   time.Time // when the last fetch started
	failure error
	// fetching is closed when the current fetch has ended.
	fetching chan struct{}
}

type jwk struct {
	ID        string `json:"kid"`
	Type      string `json:"kty"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N         string `json:"n"`
	E         string `json:"e"`
	X         string `json:"x"`
	Y         string `json:"y"`

	public crypto.PublicKey
}

// key returns the key that a token names. If the key is unknown, or the keys are too old to
// be used, key waits until the keys have been fetched; otherwise old keys are used while
// they are fetched again.
func (s *keySet) key(ctx context.Context, id, algorithm string) (crypto.PublicKey, error) {
	s.mu.Lock()
	found, err := s.find(id, algorithm)
	now := s.now()
	wait := err != nil || now.Sub(s.fetched) > keysStale
	if s.fetching == nil && now.Sub(s.tried) > keysPause && (err != nil || now.Sub(s.fetched) > keysFresh) {
		s.tried, s.fetching = now, make(chan struct{})
		// The request may be cancelled, but others wait for the keys, too.
		go s.refresh(context.WithoutCancel(ctx))
	}
	fetching := s.fetching
	s.mu.Unlock()
	if wait && fetching != nil {
		select {
		case <-fetching:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Sub(s.fetched) > keysStale {
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "cannot fetch the keys of %s: %w", s.issuer, s.failure)
		return nil, e.WithHint("check that the authorization server is up and that server.auth.oauth.issuers has its issuer exactly as in its metadata")
	}
	if !wait {
		return found, nil
	}
	return s.find(id, algorithm)
}

func (s *keySet) refresh(ctx context.Context) {
	keys, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure = err; err == nil {
		s.keys, s.fetched = keys, s.now()
	}
	close(s.fetching)
	s.fetching = nil
}

func (s *keySet) find(id, algorithm string) (crypto.PublicKey, error) {
	var fits []jwk
	for _, k := range s.keys {
		if (id == "" || k.ID == id) && (k.Algorithm == "" || k.Algorithm == algorithm) && k.supports(algorithm) {
			fits = append(fits, k)
		}
	}
	if len(fits) != 1 {
		return nil, fmt.Errorf("its issuer has %d keys that match it, want 1", len(fits))
	}
	return fits[0].public, nil
}

func (k *jwk) supports(algorithm string) bool {
	switch k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

// fetch reads the issuer's metadata and then its keys.
func (s *keySet) fetch(ctx context.Context) ([]jwk, error) {
	about, err := s.metadata(ctx)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := getJSON(ctx, s.client, about.JWKSURI, "", &set); err != nil {
		return nil, err
	}
	var keys []jwk
	for _, k := range set.Keys {
		if k.Use != "" && k.Use != "sig" {
			continue
		}
		// Ignore keys of unknown types.
		if k.public, err = k.parse(); err == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no signing key")
	}
	return keys, nil
}

// Endpoints returns the addresses of an issuer at which people log in.
func (v *Verifier) Endpoints(ctx context.Context, issuer string) (Endpoints, error) {
	m, err := v.keys[issuer].metadata(ctx)
	if err != nil {
		return Endpoints{}, err
	}
	if m.Authorize == "" || m.Token == "" {
		return Endpoints{}, fmt.Errorf("the metadata of %s lack authorization_endpoint or token_endpoint", issuer)
	}
	return m.Endpoints, nil
}

// Endpoints are the addresses of an issuer at which a browser logs in, a code is exchanged for
// tokens, and an access token is exchanged for claims about the person. UserInfo may be empty.
type Endpoints struct {
	Authorize string `json:"authorization_endpoint"`
	Token     string `json:"token_endpoint"`
	UserInfo  string `json:"userinfo_endpoint"`
}

// metadata are an issuer's metadata.
type metadata struct {
	Issuer  string `json:"issuer"`
	JWKSURI string `json:"jwks_uri"`
	Endpoints
}

// metadata reads the metadata of RFC 8414 or OpenID Connect.
func (s *keySet) metadata(ctx context.Context) (metadata, error) {
	u, err := url.Parse(s.issuer)
	if err != nil {
		return metadata{}, err
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	base := u.Scheme + "://" + u.Host
	var errs []error
	for _, address := range []string{
		base + "/.well-known/oauth-authorization-server" + path,
		base + "/.well-known/openid-configuration" + path,
		base + path + "/.well-known/openid-configuration",
	} {
		var m metadata
		switch err := getJSON(ctx, s.client, address, "", &m); {
		case err != nil:
			errs = append(errs, err)
		case m.Issuer != s.issuer:
			errs = append(errs, fmt.Errorf("%s belongs to the issuer %q", address, m.Issuer))
		case m.JWKSURI == "":
			errs = append(errs, fmt.Errorf("%s has no jwks_uri", address))
		default:
			return m, nil
		}
	}
	return metadata{}, errors.Join(errs...)
}

// getJSON reads a document of an issuer, with the access token bearer if that is not empty.
func getJSON(ctx context.Context, client *http.Client, address, bearer string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responded with %s", address, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}

// minRSA is the minimum length of an RSA key, in bits (NIST SP 800-131A).
const minRSA = 2048

func (k *jwk) parse() (crypto.PublicKey, error) {
	switch k.Type {
	case "RSA":
		n, errN := integer(k.N)
		e, errE := integer(k.E)
		if err := errors.Join(errN, errE); err != nil {
			return nil, err
		}
		if n.BitLen() < minRSA || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return nil, errors.New("the RSA key is too weak")
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Curve]
		x, errX := base64.RawURLEncoding.DecodeString(k.X)
		y, errY := base64.RawURLEncoding.DecodeString(k.Y)
		if err := errors.Join(errX, errY); err != nil || curve == nil {
			return nil, fmt.Errorf("unknown curve %q: %w", k.Curve, err)
		}
		size := (curve.Params().BitSize + 7) / 8
		if len(x) != size || len(y) != size {
			return nil, errors.New("the point has the wrong size")
		}
		return ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || k.Curve != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("unknown curve %q: %w", k.Curve, err)
		}
		return ed25519.PublicKey(x), nil
	default:
		return nil, fmt.Errorf("unknown key type %q", k.Type)
	}
}

func integer(text string) (*big.Int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return new(big.Int).SetBytes(raw), err
}
