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

// requestState is the state that a client keeps for the server between the rounds of a call.
// Because anybody could send it back, it is sealed, expires, and is valid for one caller, one
// request and one round only.
type requestState struct {
	// Call is the id of the suspended call, and Turn the number of its round.
	Call string `json:"d"`
	Turn int    `json:"t"`
	// Replica is the name of the server that holds the suspended call.
	Replica string `json:"p,omitempty"`
	// Approval is the id of an approval, if that was the only question. It is stored, so the
	// answer counts even if the call is no longer suspended.
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

// open returns the state in a sealed text. It returns an error unless the text was sealed for
// this caller and this request and has not expired.
func (s sealer) open(text, owner string, request []byte, now time.Time) (requestState, error) {
	state, err := s.read(text)
	if err != nil {
		return state, err
	}
	switch {
	case state.Owner != owner, string(state.Request) != string(request):
		return state, invalidState("it is of another request")
	case now.After(state.Expires):
		return state, invalidState("it has expired")
	}
	return state, nil
}

// read returns the state in a sealed text, without checking whom it is for.
func (s sealer) read(text string) (requestState, error) {
	var state requestState
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return state, invalidState("it is not of this server")
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &state) != nil {
		return state, invalidState("it is not of this server, or it was changed")
	}
	return state, nil
}

// replicaOf returns the name of the server that holds the call of a sealed state, or "".
func (s sealer) replicaOf(text string) string {
	state, err := s.read(text)
	if err != nil {
		return ""
	}
	return state.Replica
}

func invalidState(why string) error {
	return invalidParams("the requestState is not good: " + why + " (make the call again without it)")
}

// requestDigest returns a digest of a request's method, object and arguments.
func requestDigest(method, name string, arguments []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(name), arguments} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)
}
