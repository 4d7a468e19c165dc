// Package minilm computes sentence vectors with a BERT encoder of the kind of
// all-MiniLM-L6-v2, in Go alone. [Load] reads the folder of a model as
// sentence-transformers writes it:
//
//	config.json  vocab.txt  model.safetensors  1_Pooling/config.json (optional)
//
// A folder is not trusted: sizes are bounded, and whatever does not fit the
// architecture is refused before memory is taken for it.
package minilm
