package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// What `sources add` writes is read back, every key of every kind of source.
func TestEveryKeyOfASourceIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	var want, got Source
	fillAll(t, reflect.ValueOf(&want).Elem())
	text, err := yaml.Dump(want)
	if err != nil {
		t.Fatal(err)
	}
	d := &decoder{positions: map[string]position{}}
	d.decode(d.parse(text), reflect.ValueOf(&got).Elem(), "")
	if len(d.found) > 0 {
		t.Fatalf("%v in\n%s", d.errors(), text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

// fillAll gives everything below v a value that is not its zero value.
func fillAll(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Duration:
		v.SetInt(int64(time.Minute))
		return
	case JSON:
		v.SetBytes([]byte(`{"type":"object"}`))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(t, v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fillAll(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	default:
		t.Fatalf("fillAll has no value for a %s", v.Type())
	}
}
