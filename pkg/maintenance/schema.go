package maintenance

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// WriteSchema writes the JSON Schema (2020-12) of the report, made from its Go
// types: every field, whether it may be missing or null, and the statuses.
// Reports of later versions may have more fields; what is there stays.
func WriteSchema(w io.Writer) error {
	return WriteSchemaOf(w, "Report of a run of compactor", Report{})
}

// WriteSchemaOf writes the JSON Schema of the type of another document, in the
// same way. The document has structs, lists, texts, numbers and times in it, and
// no maps.
func WriteSchemaOf(w io.Writer, title string, document any) error {
	root := schemaOf(reflect.TypeOf(document))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = title
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("write schema of %T: %w", document, err)
	}

	return nil
}

// schemaOf describes how encoding/json writes a type of the report.
func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[Seconds]():
		return map[string]any{"type": "number", "minimum": 0}
	case reflect.TypeFor[Status]():
		return map[string]any{"enum": statusOrder()}
	}
	switch t.Kind() {
	case reflect.Struct:
		return schemaOfStruct(t)
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(t.Elem()), map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{"type": "integer"}
	}
}

// schemaOfStruct describes the fields by their tags. A field that is left out
// when it is empty is never null.
func schemaOfStruct(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		one := schemaOf(f.Type)
		if strings.Contains(options, "omitempty") {
			one = notNull(f.Type)
		} else {
			required = append(required, name)
		}
		properties[name] = one
	}

	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func notNull(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem()), "minItems": 1}
	default:
		return schemaOf(t)
	}
}
