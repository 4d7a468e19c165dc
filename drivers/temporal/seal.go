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
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/toolroom/toolroom"
)

// minSecret is the minimum length of the shared secret in bytes.
const minSecret = 32

// converters returns converters that encrypt all data in Temporal's history, including
// failures.
func converters(secret string) (converter.DataConverter, converter.FailureConverter, error) {
	if len(secret) < minSecret {
		return nil, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the secret for Temporal has %d bytes; at least %d are required", len(secret), minSecret).
			WithCLIHint("openssl rand -hex 32 | toolroom secret set temporal/key")
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "toolroom temporal payloads", 32)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, nil, err
	}
	data := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), sealing{aead})
	failures := temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data, EncodeCommonAttributes: true})
	return data, failures, nil
}

// sealing encrypts whole payloads with AES-256-GCM. It refuses payloads that are not
// encrypted, so that forged payloads are never read.
type sealing struct{ aead cipher.AEAD }

const encoding = "binary/toolroom-sealed"

// Encode encrypts payloads.
func (s sealing) Encode(plain []*commonpb.Payload) ([]*commonpb.Payload, error) {
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
func (s sealing) Decode(sealed []*commonpb.Payload) ([]*commonpb.Payload, error) {
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

// random returns a random part of a name.
func random() string { return rand.Text()[:16] }
