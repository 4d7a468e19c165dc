package mcp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// requestState is what a client carries for us between the rounds of a call. It
// comes back from the client, and so from anybody: it is sealed, it ends, and
// it is good for one caller, one request and one round.
type requestState struct {
	// Call is the call that waits for answers, and Turn which of its rounds.
	Call string `json:"d"`
	Turn int    `json:"t"`
	// Replica is the server that the call waits in.
	Replica string `json:"p,omitempty"`
	// Approval is the question to a person, where that is all that was asked: it
	// is durable, and its answer counts even when the call waits no longer.
	Approval string    `json:"a,omitempty"`
	Owner    string    `json:"o"`
	Request  []byte    `json:"r"` // digest of the request
	Expires  time.Time `json:"e"`
}

// StateKeySize is the size of the key that seals request state, in bytes.
const StateKeySize = 32

// sealer seals and opens request state.
type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) (sealer, error) {
	if len(key) == 0 {
		key = make([]byte, StateKeySize)
		if _, err := rand.Read(key); err != nil {
			return sealer{}, err
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, fmt.Errorf("invalid key of request state: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

func (s sealer) seal(state requestState) (string, error) {
	plain, err := json.Marshal(state)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil)), nil
}

// open gives the state behind a text that this server sealed for this caller and
// this very request, and that has not expired.
func (s sealer) open(text, owner string, request []byte, now time.Time) (requestState, error) {
	state, err := s.read(text)
	if err != nil {
		return state, err
	}
	switch {
	case state.Owner != owner, string(state.Request) != string(request):
		return state, badState("it is of another request")
	case now.After(state.Expires):
		return state, badState("it has expired")
	}
	return state, nil
}

// read gives what stands in a text that this server sealed.
func (s sealer) read(text string) (requestState, error) {
	var state requestState
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return state, badState("it is not of this server")
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &state) != nil {
		return state, badState("it is not of this server, or it was changed")
	}
	return state, nil
}

// replica is the server that a state is of, empty for none.
func (s sealer) replica(text string) string {
	state, err := s.read(text)
	if err != nil {
		return ""
	}
	return state.Replica
}

func badState(why string) error {
	return invalidParams("the requestState is not good: " + why + " (make the call again without it)")
}

// requestDigest names a request by what it asks for.
func requestDigest(method, name string, arguments []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(name), arguments} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)
}
