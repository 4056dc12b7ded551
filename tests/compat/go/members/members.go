// Package members is the common part of all programs with members of groups: lines in, lines of JSON out.
//
// In, one on each line: start NAME TOPIC,TOPIC... [setting=value ...]
//
//	close NAME
//
// Out:                  {"at":ms,"member":NAME,"event":E,...} with the generation, as described in GroupMembers.java.
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

// Settings has the settings of a member under their names in Kafka's Java client.
type Settings map[string]string

// Milliseconds returns the duration in a setting, or `otherwise` if it is not set.
func (s Settings) Milliseconds(name string, otherwise time.Duration) time.Duration {
	number, err := strconv.Atoi(s[name])
	if err != nil {
		return otherwise
	}
	return time.Duration(number) * time.Millisecond
}

// Record has the partition ("topic-0"), offset and value of a consumed record.
type Record struct {
	Partition string
	Offset    int64
	Value     string
}

func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{r.Partition, r.Offset, r.Value})
}

// Member is one member of a group, which reports its events.
type Member struct {
	Name     string
	Topics   []string
	Settings Settings
	Closing  chan struct{} // closed when the member has to leave
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

var outputLock sync.Mutex

func (m *Member) report(one line) {
	outputLock.Lock()
	defer outputLock.Unlock()
	one.At, one.Member = monotonicMilliseconds(), m.Name
	content, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(content, '\n'))
}

// Changed reports that partitions were "assigned", "revoked" or "lost".
func (m *Member) Changed(event string, partitions map[string][]int32) {
	named := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			named = append(named, PartitionName(topic, number))
		}
	}
	m.report(line{Event: event, Partitions: named})
}

// Polled reports consumed records.
func (m *Member) Polled(generation int32, records []Record) {
	m.report(line{Event: "polled", Generation: &generation, Records: records})
}

// Failed reports the error that ended the member.
func (m *Member) Failed(err error) {
	m.report(line{Event: "failed", Error: err.Error()})
}

// Serve carries out the commands until the input ends. `run` runs a member, and returns when it has left.
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
			member.report(line{Event: "started"})
			if err := run(member); err != nil {
				member.Failed(err)
				return
			}
			member.report(line{Event: "closed"})
		}()
	}
	os.Exit(0)
}

// monotonicMilliseconds reads the clock of Python's time.monotonic and Java's System.nanoTime.
func monotonicMilliseconds() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	if _, _, number := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); number != 0 {
		panic(number)
	}
	return now.Nano() / 1_000_000
}

// PartitionName returns the name of a partition as Kafka's tools write it: "topic-0".
func PartitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// Addresses splits a list with commas.
func Addresses(servers string) []string {
	return strings.Split(servers, ",")
}
