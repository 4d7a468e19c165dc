package remote

import (
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// SigningKey is a secret and the name of its holder.
type SigningKey struct {
	Name   string
	Secret []byte
}

// Reason says why a request was refused.
type Reason string

// The reasons.
const (
	ReasonUnsigned Reason = "unsigned" // a header is missing or malformed
	ReasonWrong    Reason = "wrong_signature"
	ReasonSkewed   Reason = "clock_skew" // the signature is valid, but for another time
	ReasonReplayed Reason = "replayed"   // seen before
	// ReasonEarly means that the request was signed before the verifier was made. It can be
	// signed and sent again.
	ReasonEarly Reason = "signed_too_early"
	// ReasonBusy means that the verifier cannot remember more requests at the moment.
	ReasonBusy Reason = "too_many_requests"
)

// Refusal is the error for a refused request.
type Refusal struct {
	Reason Reason
	// Skew is how far the sender's clock is ahead, if that is the reason; it is negative if
	// the clock is behind.
	Skew time.Duration
}

func (r *Refusal) Error() string {
	switch r.Reason {
	case ReasonUnsigned:
		return "the request is not signed"
	case ReasonWrong:
		return "the signature matches no secret known here"
	case ReasonSkewed:
		return fmt.Sprintf("the request is signed with a known secret, but its clock is %s apart from the one here; %s is allowed", r.Skew.Abs().Round(time.Second), SignatureWindow)
	case ReasonReplayed:
		return "the request has been seen before"
	case ReasonEarly:
		return "the request was signed before this server started"
	default:
		return "there are more requests than can be remembered"
	}
}

// Verifier verifies signatures and accepts each request once. Its memory ends with the
// process, so it refuses requests that were signed before it was made. Make one with
// [NewVerifier]. Its methods are safe for concurrent use.
type Verifier struct {
	keys    []SigningKey
	started time.Time
	now     func() time.Time
	most    int

	// Nonces are remembered for two to four windows: a request may be signed one window
	// ahead of now, and expires one window after that.
	mu         sync.Mutex
	fresh, old map[[16]byte]struct{}
	turned     time.Time
}

// maxNonces limits the remembered nonces to about 40 MB.
const maxNonces = 1 << 20

// NewVerifier returns a verifier for the holders of keys. now returns the time; nil means
// the system's clock.
func NewVerifier(keys []SigningKey, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{keys: keys, started: now(), now: now, most: maxNonces, fresh: map[[16]byte]struct{}{}, turned: now()}
}

// Verify returns the name of the request's signer, or a [*Refusal]. Without a valid
// signature the refusal reveals nothing else, such as whether the time is right.
func (v *Verifier) Verify(r *http.Request, body []byte) (string, error) {
	timestamp := r.Header.Get(HeaderTimestamp)
	millis, err := strconv.ParseInt(timestamp, 10, 64)
	var nonce [16]byte
	once := r.Header.Get(HeaderNonce)
	signature, ok := strings.CutPrefix(r.Header.Get(HeaderSignature), version)
	given, herr := hex.DecodeString(signature)
	if n, nerr := hex.Decode(nonce[:], first(once, 32)); err != nil || nerr != nil || n != len(nonce) || len(once) != 32 || !ok || herr != nil {
		return "", &Refusal{Reason: ReasonUnsigned}
	}
	name, known := "", false
	for _, k := range v.keys { // check all keys, so that the duration reveals nothing
		if hmac.Equal(given, mac(r, body, k.Secret, timestamp, once)) {
			name, known = k.Name, true
		}
	}
	if !known {
		return "", &Refusal{Reason: ReasonWrong}
	}
	now := v.now()
	if skew := time.UnixMilli(millis).Sub(now); skew.Abs() > SignatureWindow {
		return "", &Refusal{Reason: ReasonSkewed, Skew: skew}
	}
	if millis < v.started.UnixMilli() {
		return "", &Refusal{Reason: ReasonEarly}
	}
	return name, v.remember(nonce, now)
}

func first(s string, n int) []byte { return []byte(s[:min(n, len(s))]) }

func (v *Verifier) remember(nonce [16]byte, now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.turned) > 2*SignatureWindow {
		v.old, v.fresh, v.turned = v.fresh, map[[16]byte]struct{}{}, now
	}
	_, isFresh := v.fresh[nonce]
	_, isOld := v.old[nonce]
	if isFresh || isOld {
		return &Refusal{Reason: ReasonReplayed}
	}
	if len(v.fresh)+len(v.old) >= v.most {
		return &Refusal{Reason: ReasonBusy}
	}
	v.fresh[nonce] = struct{}{}
	return nil
}
