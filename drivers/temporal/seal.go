package temporal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/toolroom/toolroom"
)

// minSecret is the minimum length of the shared secret in bytes.
const minSecret = 32

// keys are derived from the shared secret.
type keys struct {
	// data and failures encrypt all data in Temporal's history.
	data     converter.DataConverter
	failures converter.FailureConverter
	names    []byte // see [callName]
}

func newKeys(secret string) (*keys, error) {
	if len(secret) < minSecret {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the secret for Temporal has %d bytes; at least %d are required", len(secret), minSecret).
			WithCLIHint("openssl rand -hex 32 | toolroom secret set temporal/key")
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "toolroom temporal payloads", 32)
	if err != nil {
		return nil, err
	}
	names, err := hkdf.Key(sha256.New, []byte(secret), nil, "toolroom temporal names", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	data := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), payloadCodec{aead})
	failures := temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data, EncodeCommonAttributes: true})
	return &keys{data, sealedFailures{failures, data}, names}, nil
}

// sealedFailures drops the text of failures that is not encrypted. Anybody with the
// namespace can fail an activity or cancel a workflow with a text, which would reach a model.
type sealedFailures struct {
	converter.FailureConverter
	data converter.DataConverter
}

func (f sealedFailures) FailureToError(failure *failurepb.Failure) error {
	if failure == nil {
		return nil
	}
	kept := proto.Clone(failure).(*failurepb.Failure)
	for one := kept; one != nil; one = one.GetCause() {
		var sealed any
		if one.EncodedAttributes == nil || f.data.FromPayload(one.EncodedAttributes, &sealed) != nil {
			one.Message, one.StackTrace, one.EncodedAttributes = "it does not say why", "", nil
		}
		one.Source = ""
		if of := one.GetApplicationFailureInfo(); of != nil && of.Type != refusedType {
			of.Type = ""
		}
	}
	return f.FailureConverter.FailureToError(kept)
}

// errorText returns the text of an error of Temporal without its type and the name of its
// worker, which are not encrypted.
func errorText(err error) string {
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var activity *temporal.ActivityError
	var execution *temporal.WorkflowExecutionError
	switch {
	case errors.As(err, &application):
		return application.Message()
	case errors.As(err, &timeout):
		return "a worker was lost (" + timeout.TimeoutType().String() + ")"
	case errors.As(err, &activity) || errors.As(err, &execution):
		return "it does not say why"
	}
	return err.Error()
}

// payloadCodec encrypts whole payloads with AES-256-GCM. It refuses payloads that are not
// encrypted, so that forged payloads are never read.
type payloadCodec struct{ aead cipher.AEAD }

const encoding = "binary/toolroom-sealed"

// Encode encrypts payloads.
func (s payloadCodec) Encode(plain []*commonpb.Payload) ([]*commonpb.Payload, error) {
	sealed := make([]*commonpb.Payload, len(plain))
	for i, p := range plain {
		text, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		sealed[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)},
			Data:     s.aead.Seal(nil, nil, text, nil),
		}
	}
	return sealed, nil
}

// Decode decrypts payloads.
func (s payloadCodec) Decode(sealed []*commonpb.Payload) ([]*commonpb.Payload, error) {
	plain := make([]*commonpb.Payload, len(sealed))
	for i, p := range sealed {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
			return nil, errors.New("a payload is not encrypted")
		}
		text, err := s.aead.Open(nil, nil, p.GetData(), nil)
		if err != nil {
			return nil, errors.New("a payload was encrypted with another secret")
		}
		plain[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(text, plain[i]); err != nil {
			return nil, fmt.Errorf("decode an encrypted payload: %w", err)
		}
	}
	return plain, nil
}

// randomSuffix returns a random part of a name.
func randomSuffix() string { return rand.Text()[:16] }
