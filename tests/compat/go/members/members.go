// Package members is the part that all programs with members of groups share: lines in, lines of JSON out.
//
// In, one a line:  start NAME TOPIC,TOPIC... [setting=value ...]
//
//	close NAME
//
// Out:             {"at":ms,"member":NAME,"event":E,...}, as GroupMembers.java has it, with the generation.
// The end of the input ends the process at once: its members crash, as after SIGKILL.
package members

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Settings are those of Kafka's Java client, by their names there.
type Settings map[string]string

// Milliseconds is the duration in a setting, or what stands there without one.
func (s Settings) Milliseconds(name string, otherwise time.Duration) time.Duration {
	number, err := strconv.Atoi(s[name])
	if err != nil {
		return otherwise
	}
	return time.Duration(number) * time.Millisecond
}

// Record is partition ("topic-0"), offset and value.
type Record struct {
	Partition string
	Offset    int64
	Value     string
}

func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{r.Partition, r.Offset, r.Value})
}

// Member tells what happens to it.
type Member struct {
	Name     string
	Topics   []string
	Settings Settings
	Closing  chan struct{} // closed when it shall leave
}

type line struct {
	At         int64    `json:"at"`
	Member     string   `json:"member"`
	Event      string   `json:"event"`
	Generation *int32   `json:"generation,omitempty"`
	Partitions []string `json:"partitions,omitzero"`
	Records    []Record `json:"records,omitempty"`
	Error      string   `json:"error,omitempty"`
}

var telling sync.Mutex

func (m *Member) tell(one line) {
	telling.Lock()
	defer telling.Unlock()
	one.At, one.Member = monotonicMilliseconds(), m.Name
	content, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(content, '\n'))
}

// Changed tells that partitions were "assigned", "revoked" or "lost".
func (m *Member) Changed(event string, partitions map[string][]int32) {
	named := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			named = append(named, PartitionName(topic, number))
		}
	}
	m.tell(line{Event: event, Partitions: named})
}

// Polled tells what was consumed.
func (m *Member) Polled(generation int32, records []Record) {
	m.tell(line{Event: "polled", Generation: &generation, Records: records})
}

// Failed tells what ended the member.
func (m *Member) Failed(err error) {
	m.tell(line{Event: "failed", Error: err.Error()})
}

// Serve starts members with `run`, which returns when the member has left, until there is no more input.
func Serve(run func(*Member) error) {
	known := map[string]*Member{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Split(input.Text(), " ")
		if words[0] == "close" {
			close(known[words[1]].Closing)
			continue
		}
		member := &Member{
			Name:     words[1],
			Topics:   strings.Split(words[2], ","),
			Settings: Settings{},
			Closing:  make(chan struct{}),
		}
		for _, word := range words[3:] {
			name, value, _ := strings.Cut(word, "=")
			member.Settings[name] = value
		}
		known[member.Name] = member
		go func() {
			member.tell(line{Event: "started"})
			if err := run(member); err != nil {
				member.Failed(err)
				return
			}
			member.tell(line{Event: "closed"})
		}()
	}
	os.Exit(0)
}

// The clock that Python's time.monotonic and Java's System.nanoTime read.
func monotonicMilliseconds() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	if _, _, number := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); number != 0 {
		panic(number)
	}
	return now.Nano() / 1_000_000
}

// PartitionName is "topic-0", as Kafka's tools write it.
func PartitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// Addresses are those of a list with commas.
func Addresses(servers string) []string {
	return strings.Split(servers, ",")
}
