/* The compiled functions of pure_record_walk.py: they return the same results in a hundredth of the time.

   No length in a record decides how much memory is allocated, and no byte beyond the buffer is read: each
   length is compared with the bytes that are left before it is used. The buffer is not copied. Walks of large
   buffers release the interpreter's lock; short walks keep it, as taking it again may cost more.

   This uses only the limited API of Python 3.11, so that one build serves all later versions. */

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 61
#define LOG_OVERHEAD 12
#define MIN_RECORD_BYTES 7
#define MAX_VARINT_BYTES 5
#define MAX_VARLONG_BYTES 10
#define NO_TIMESTAMP (-1)
#define RELEASE_LOCK_BYTES (128 * 1024)
#define MAX_DIGITS 19
#define FIRST_ENTRIES 64

static const char deliver_at[] = "ottla.deliver.at";
static const char deliver_after[] = "ottla.deliver.after.ms";

/* The numbers are also in pure_record_walk.py. */
enum { VALID, LENGTH, FIELD, DELTA, HEADERS, HEADER_NAME, ENDS_EARLY, KEYLESS, TIMESTAMP, DELAY, TOO_LATE };

typedef const unsigned char *place;

static int64_t long_varint(place *at, place end, int max_bytes, int *is_bad) {
    place p = *at, stop = end - p > max_bytes ? p + max_bytes : end;
    uint64_t folded = 0;
    int shift = 0;
    while (p < stop) {
        unsigned char byte = *p++;
        folded |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = p;
            return (int64_t)(folded >> 1) ^ -(int64_t)(folded & 1);
        }
        shift += 7;
    }
    *is_bad = 1;
    return 0;
}

/* The common cases are inlined: most varints have one byte or two. */
static inline int64_t varint(place *at, place end, int max_bytes, int *is_bad) {
    place p = *at;
    if (end - p >= 2) {
        unsigned int folded = p[0];
        if (folded < 0x80) {
            *at = p + 1;
            return (int64_t)(folded >> 1) ^ -(int64_t)(folded & 1);
        }
        if (p[1] < 0x80) {
            folded = (folded & 0x7f) | (unsigned int)p[1] << 7;
            *at = p + 2;
            return (int64_t)(folded >> 1) ^ -(int64_t)(folded & 1);
        }
    }
    return long_varint(at, end, max_bytes, is_bad);
}

/* Moves *at forward by `length` bytes; a negative length stands for null. */
static inline void step(place *at, place end, int64_t length, int *is_bad) {
    if (length > end - *at) *is_bad = 1;
    else if (length > 0) *at += length;
}

static inline int64_t wrapped_sum(int64_t one, int64_t other) {
    return (int64_t)((uint64_t)one + (uint64_t)other);
}

/* Returns the end of the record at *at, and moves *at to its timestamp delta; NULL if the length is wrong. */
static inline place record_end(place *at, place stop) {
    int is_bad = 0;
    int64_t length = varint(at, stop, MAX_VARINT_BYTES, &is_bad);
    if (is_bad || length < MIN_RECORD_BYTES - 1 || length > stop - *at) return NULL;
    place end = *at + length;
    *at += 1; /* the attributes, which are not used yet */
    return end;
}

typedef struct {
    int64_t base_timestamp, earliest, latest;
    int needs_key;
} rules_t;

typedef struct {
    int problem;
    int64_t index; /* of the next record, or of the one that has the problem */
    place at;
    int64_t largest;
} walked_t;

static void walk_records(walked_t *walked, place stop, int64_t last, int64_t max_bytes, const rules_t *rules) {
    place p = walked->at, first = p;
    int64_t index = walked->index, largest = walked->largest;
    int problem = VALID;
    while (index < last && p - first < max_bytes) {
        place start = p;
        int is_bad = 0;
        place end = record_end(&p, stop);
        if (end == NULL) { problem = LENGTH; p = start; break; }
        int64_t timestamp_delta = varint(&p, end, MAX_VARLONG_BYTES, &is_bad);
        int64_t delta = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        int64_t key = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        step(&p, end, key, &is_bad);
        int64_t value = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        step(&p, end, value, &is_bad);
        int64_t headers = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        if (is_bad) problem = FIELD;
        else if (delta != index) problem = DELTA;
        else if (headers < 0 || headers > (end - p) / 2) problem = HEADERS; /* a header takes at least two
        bytes */
        for (; problem == VALID && headers; headers--) {
            int64_t name = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
            if (is_bad) { problem = FIELD; break; }
            if (name < 0) { problem = HEADER_NAME; break; }
            step(&p, end, name, &is_bad);
            int64_t content = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
            step(&p, end, content, &is_bad);
            if (is_bad) problem = FIELD;
        }
        if (problem == VALID && p != end) problem = ENDS_EARLY;
        if (problem != VALID) { p = start; break; }
        int64_t timestamp = wrapped_sum(rules->base_timestamp, timestamp_delta);
        if (rules->needs_key && key < 0) { problem = KEYLESS; break; }
        if ((timestamp < rules->earliest || timestamp > rules->latest) && timestamp != NO_TIMESTAMP) {
            problem = TIMESTAMP;
            largest = timestamp;
            break;
        }
        if (timestamp > largest) largest = timestamp;
        index++;
    }
    walked->problem = problem;
    walked->index = index;
    walked->at = p;
    walked->largest = largest;
}

/* Walks over the records; releases the interpreter's lock if the buffer is large. */
static void walk_buffer(walked_t *walked, const Py_buffer *view, int64_t last, int64_t max_bytes, const rules_t *rules) {
    place stop = (place)view->buf + view->len;
    PyThreadState *state = view->len >= RELEASE_LOCK_BYTES ? PyEval_SaveThread() : NULL;
    walk_records(walked, stop, last, max_bytes, rules);
    if (state != NULL) PyEval_RestoreThread(state);
}

/* Converts arguments to integers; returns 0 with an exception set if one is not an integer. */
static int numbers(PyObject *const *arguments, Py_ssize_t count, int64_t *into) {
    for (Py_ssize_t i = 0; i < count; i++) {
        into[i] = PyLong_AsLongLong(arguments[i]);
        if (into[i] == -1 && PyErr_Occurred()) return 0;
    }
    return 1;
}

/* Reads the arguments: a buffer, then integers, the first of which is a position in the buffer. Returns 0
with an
   exception set if they do not fit. */
static int opened(PyObject *const *arguments, Py_ssize_t given, Py_ssize_t wanted, Py_buffer *view,
                  int64_t *into) {
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", wanted, given);
        return 0;
    }
    if (!numbers(arguments + 1, wanted - 1, into)) return 0;
    if (PyObject_GetBuffer(arguments[0], view, PyBUF_SIMPLE) < 0) return 0;
    if (into[0] < 0 || into[0] > view->len) {
        PyErr_Format(PyExc_ValueError, "position %lld is outside the buffer", (long long)into[0]);
        PyBuffer_Release(view);
        return 0;
    }
    return 1;
}

static inline int64_t at_most(int64_t base, int64_t more, int64_t limit) {
    return more < 0 ? base : more < limit - base ? base + more : limit;
}

PyDoc_STRVAR(walk_doc, "walk(content, position, index, count, max_records, max_bytes, base_timestamp, earliest, latest,"
    " needs_key)\n--\n\nSee logstore.pure_record_walk.walk.");

static PyObject *walk(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[9];
    Py_buffer view;
    if (!opened(arguments, given, 10, &view, n)) return NULL;
    place begin = view.buf;
    walked_t walked = {VALID, n[1], begin + n[0], INT64_MIN};
    rules_t rules = {n[5], n[6], n[7], n[8] != 0};
    int64_t last = n[1] < n[2] ? at_most(n[1], n[3], n[2]) : n[1];
    walk_buffer(&walked, &view, last, n[4], &rules);
    Py_ssize_t position = walked.at - begin;
    PyBuffer_Release(&view);
    return Py_BuildValue("(iLnL)", walked.problem, (long long)walked.index, position, (long long)walked.largest);
}

PyDoc_STRVAR(is_plain_doc, "is_plain(content, position, count, base_timestamp, max_timestamp, earliest, latest)\n--\n\n"
    "See logstore.pure_record_walk.is_plain.");

static PyObject *is_plain(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[6];
    Py_buffer view;
    if (!opened(arguments, given, 7, &view, n)) return NULL;
    place begin = view.buf, stop = begin + view.len;
    walked_t walked = {VALID, 0, begin + n[0], INT64_MIN};
    rules_t rules = {n[2], n[4], n[5], 0};
    walk_buffer(&walked, &view, n[1], INT64_MAX, &rules);
    PyBuffer_Release(&view);
    return PyBool_FromLong(walked.problem == VALID && walked.at == stop && walked.largest == n[3]);
}

PyDoc_STRVAR(find_doc, "find(content, position, index, count, max_records, base_timestamp, timestamp, offset_delta)\n"
    "--\n\nSee logstore.pure_record_walk.find.");

static PyObject *find(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[7];
    Py_buffer view;
    if (!opened(arguments, given, 8, &view, n)) return NULL;
    place begin = view.buf, stop = begin + view.len, p = begin + n[0];
    int64_t index = n[1], timestamp = 0, delta = -1;
    int64_t last = n[1] < n[2] ? at_most(n[1], n[3], n[2]) : n[1];
    int problem = VALID, is_found = 0, is_bad = 0;
    PyThreadState *state = view.len >= RELEASE_LOCK_BYTES ? PyEval_SaveThread() : NULL;
    while (index < last) {
        place start = p, end = record_end(&p, stop);
        if (end == NULL) { problem = LENGTH; p = start; break; }
        timestamp = wrapped_sum(n[4], varint(&p, end, MAX_VARLONG_BYTES, &is_bad));
        delta = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        if (is_bad) { problem = FIELD; p = start; break; }
        if (delta < 0) { problem = DELTA; p = start; break; }
        p = end;
        index++;
        if (timestamp >= n[5] && delta >= n[6]) { is_found = 1; break; }
    }
    if (state != NULL) PyEval_RestoreThread(state);
    Py_ssize_t position = p - begin;
    PyBuffer_Release(&view);
    return Py_BuildValue("(iLnLL)", problem, (long long)index, position, (long long)(is_found ? delta : -1),
                         (long long)(is_found ? timestamp : 0));
}

/* Returns the tuple of one span; NULL with an exception set if there is no memory. */
static PyObject *span(place begin, place start, place rest, place end, int64_t delta, int64_t timestamp_delta, place key,
                      int64_t key_length, int has_value) {
    PyObject *made = PyTuple_New(7);
    if (made == NULL) return NULL;
    PyObject *items[7] = {
        PyLong_FromSsize_t(start - begin),
        PyLong_FromSsize_t(rest - begin),
        PyLong_FromSsize_t(end - begin),
        PyLong_FromLongLong(delta),
        PyLong_FromLongLong(timestamp_delta),
        key_length < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)key, (Py_ssize_t)key_length),
        PyBool_FromLong(has_value),
    };
    int is_whole = 1;
    for (Py_ssize_t i = 0; i < 7; i++) {
        if (items[i] == NULL) is_whole = 0;
        else PyTuple_SetItem(made, i, items[i]); /* takes the reference */
    }
    if (!is_whole) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

PyDoc_STRVAR(spans_doc, "spans(content, position, index, count, max_records)\n--\n\nSee logstore.pure_record_walk.spans.");

static PyObject *spans(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[4];
    Py_buffer view;
    if (!opened(arguments, given, 5, &view, n)) return NULL;
    PyObject *found = PyList_New(0);
    if (found == NULL) { PyBuffer_Release(&view); return NULL; }
    place begin = view.buf, stop = begin + view.len, p = begin + n[0];
    int64_t index = n[1], last = n[1] < n[2] ? at_most(n[1], n[3], n[2]) : n[1];
    int problem = VALID;
    while (index < last) {
        place start = p, end = record_end(&p, stop);
        if (end == NULL) { problem = LENGTH; p = start; break; }
        int is_bad = 0;
        int64_t timestamp_delta = varint(&p, end, MAX_VARLONG_BYTES, &is_bad);
        place rest = p;
        int64_t delta = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        int64_t key_length = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        place key = p;
        step(&p, end, key_length, &is_bad);
        int64_t value = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        step(&p, end, value, &is_bad);
        if (is_bad || p >= end) { problem = FIELD; p = start; break; } /* the count of headers must still
        follow */
        if (delta < 0) { problem = DELTA; p = start; break; }
        PyObject *one = span(begin, start, rest, end, delta, timestamp_delta, key, key_length, value >= 0);
        if (one == NULL || PyList_Append(found, one) < 0) {
            Py_XDECREF(one);
            Py_DECREF(found);
            PyBuffer_Release(&view);
            return NULL;
        }
        Py_DECREF(one);
        p = end;
        index++;
    }
    Py_ssize_t position = p - begin;
    PyBuffer_Release(&view);
    return Py_BuildValue("(iLnN)", problem, (long long)index, position, found);
}

/* The records that are not due yet, in order; the room for them is doubled when it is full. */
typedef struct {
    int32_t *deltas;
    int64_t *times;
    size_t count, room;
} delayed_t;

static int add_delayed(delayed_t *found, int64_t delta, int64_t time) {
    if (found->count == found->room) {
        size_t room = found->room ? 2 * found->room : FIRST_ENTRIES;
        int32_t *deltas = realloc(found->deltas, room * sizeof *deltas);
        if (deltas == NULL) return 0;
        found->deltas = deltas;
        int64_t *times = realloc(found->times, room * sizeof *times);
        if (times == NULL) return 0;
        found->times = times;
        found->room = room;
    }
    found->deltas[found->count] = (int32_t)delta;
    found->times[found->count++] = time;
    return 1;
}

/* The value of a header; at is NULL if there is no such header, and length is negative if the value is null.
*/
typedef struct {
    place at;
    int64_t length;
} value_t;

/* Stores the number in the value of a delivery header; returns 0 if there is none. */
static int header_number(const value_t *value, int64_t *number) {
    uint64_t folded = 0;
    int64_t i = 0;
    if (value->length <= 0 || value->length > MAX_DIGITS) return 0;
    for (; i < value->length && value->at[i] >= '0' && value->at[i] <= '9'; i++)
        folded = folded * 10 + (value->at[i] - '0'); /* 19 digits fit in 64 bits */
    if (i < value->length) {
        if (value->length != 8) return 0;
        for (folded = 0, i = 0; i < 8; i++) folded = folded << 8 | value->at[i];
    }
    if (folded > INT64_MAX) return 0;
    *number = (int64_t)folded;
    return 1;
}

static inline int64_t capped_sum(int64_t timestamp, int64_t delay) {
    return timestamp > 0 && delay > INT64_MAX - timestamp ? INT64_MAX : timestamp + delay;
}

/* Moves *at behind the headers and stores the last value of each delivery header; returns a problem or VALID.
*/
static int delivery_headers(place *at, place end, int64_t headers, value_t *at_value, value_t *after_value) {
    place p = *at;
    int is_bad = 0;
    if (headers < 0 || headers > (end - p) / 2) return HEADERS; /* a header takes at least two bytes */
    for (; headers; headers--) {
        int64_t name_length = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        if (is_bad) return FIELD;
        if (name_length < 0) return HEADER_NAME;
        place name = p;
        step(&p, end, name_length, &is_bad);
        int64_t length = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        value_t value = {p, length};
        step(&p, end, length, &is_bad);
        if (is_bad) return FIELD;
        if (name_length == sizeof deliver_at - 1 && !memcmp(name, deliver_at, sizeof deliver_at - 1)) *at_value = value;
        else if (name_length == sizeof deliver_after - 1 && !memcmp(name, deliver_after, sizeof deliver_after - 1))
            *after_value = value;
    }
    *at = p;
    return VALID;
}

typedef struct {
    int64_t base_timestamp, is_stamped, default_delay, now, latest, is_strict;
} delays_t;

/* Walks over records until `last` and stores those that are not due; returns 0 if there is no memory. */
static int find_delayed(walked_t *walked, place stop, int64_t last, const delays_t *rules, delayed_t *found) {
    place p = walked->at;
    int64_t index = walked->index;
    int problem = VALID, is_there = 1;
    while (index < last) {
        place start = p, end = record_end(&p, stop);
        if (end == NULL) { problem = LENGTH; p = start; break; }
        int is_bad = 0;
        int64_t timestamp_delta = varint(&p, end, MAX_VARLONG_BYTES, &is_bad);
        int64_t delta = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        for (int i = 0; i < 2; i++) step(&p, end, varint(&p, end, MAX_VARINT_BYTES, &is_bad), &is_bad); /* key, value */
        int64_t headers = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        if (is_bad) problem = FIELD;
        else if (delta < 0 || delta > INT32_MAX) problem = DELTA; /* a varint of five bytes may be larger */
        if (problem != VALID) { p = start; break; }
        int64_t timestamp = rules->is_stamped ? rules->base_timestamp
                                              : wrapped_sum(rules->base_timestamp, timestamp_delta);
        int64_t due = capped_sum(timestamp, rules->default_delay);
        if (headers) {
            value_t at_value = {NULL, 0}, after_value = {NULL, 0};
            problem = delivery_headers(&p, end, headers, &at_value, &after_value);
            if (problem != VALID) { p = start; break; }
            const value_t *delivery = at_value.at != NULL ? &at_value : after_value.at != NULL ? &after_value : NULL;
            int64_t number;
            if (delivery != NULL && !header_number(delivery, &number)) {
                problem = DELAY;
                due = INT64_MIN;
            } else if (delivery != NULL) {
                due = delivery == &at_value ? number : capped_sum(timestamp, number);
                if (due > rules->latest) problem = TOO_LATE;
            }
            if (problem != VALID && rules->is_strict) { p = end; break; }
            problem = VALID;
        }
        if (due > rules->latest) due = rules->latest;
        if (due > rules->now && !add_delayed(found, delta, due)) { is_there = 0; p = start; break; }
        p = end;
        index++;
    }
    walked->problem = problem;
    walked->index = index;
    walked->at = p;
    return is_there;
}

PyDoc_STRVAR(due_times_doc, "due_times(content, position, index, count, max_records, base_timestamp, is_stamped,"
    " default_delay, now, latest, is_strict)\n--\n\nSee logstore.pure_record_walk.due_times.");

static PyObject *due_times(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[10];
    Py_buffer view;
    if (!opened(arguments, given, 11, &view, n)) return NULL;
    place begin = view.buf;
    walked_t walked = {VALID, n[1], begin + n[0], INT64_MIN};
    delays_t rules = {n[4], n[5], n[6], n[7], n[8], n[9]};
    delayed_t found = {NULL, NULL, 0, 0};
    int64_t last = n[1] < n[2] ? at_most(n[1], n[3], n[2]) : n[1];
    PyThreadState *state = view.len >= RELEASE_LOCK_BYTES ? PyEval_SaveThread() : NULL;
    int is_there = find_delayed(&walked, begin + view.len, last, &rules, &found);
    if (state != NULL) PyEval_RestoreThread(state);
    Py_ssize_t position = walked.at - begin;
    PyBuffer_Release(&view);
    PyObject *answer = !is_there ? PyErr_NoMemory()
        : Py_BuildValue("(iLny#y#)", walked.problem, (long long)walked.index, position,
                        found.count ? (const char *)found.deltas : "", (Py_ssize_t)(found.count * sizeof *found.deltas),
                        found.count ? (const char *)found.times : "", (Py_ssize_t)(found.count * sizeof *found.times));
    free(found.deltas);
    free(found.times);
    return answer;
}

/* The columns that `places` writes, one after the other. */
enum { END, TIMESTAMP_DELTA, OFFSET_DELTA, KEY_AT, KEY_BYTES, VALUE_AT, VALUE_BYTES, PLACES };

/* Writes the positions of the parts of `count` records that end at `stop`; `into` is the first record's row.
*/
static void place_records(walked_t *walked, place begin, place stop, int64_t count, int64_t *into, int64_t rows) {
    place p = walked->at;
    int64_t index = 0;
    int problem = VALID;
    for (; index < count; index++) {
        int is_bad = 0;
        place end = record_end(&p, stop);
        if (end == NULL) { problem = LENGTH; break; }
        int64_t *column = into + index;
        column[END * rows] = end - begin;
        column[TIMESTAMP_DELTA * rows] = varint(&p, end, MAX_VARLONG_BYTES, &is_bad);
        column[OFFSET_DELTA * rows] = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        int64_t length = column[KEY_BYTES * rows] = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        column[KEY_AT * rows] = p - begin;
        step(&p, end, length, &is_bad);
        length = column[VALUE_BYTES * rows] = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        column[VALUE_AT * rows] = p - begin;
        step(&p, end, length, &is_bad);
        int64_t headers = varint(&p, end, MAX_VARINT_BYTES, &is_bad);
        if (is_bad) { problem = FIELD; break; }
        if (headers < 0) { problem = HEADERS; break; }
        if (headers == 0 && p != end) { problem = ENDS_EARLY; break; }
        p = end;
    }
    if (problem == VALID && p != stop) problem = LENGTH;
    walked->problem = problem;
    walked->index = index;
}

PyDoc_STRVAR(places_doc, "places(content, position, end, count, into, row, rows)\n--\n\n"
    "See logstore.pure_record_walk.places.");

static PyObject *places(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[3], in[2]; /* position, end and count; row and rows */
    Py_buffer view, into;
    if (given != 7) return PyErr_Format(PyExc_TypeError, "expected 7 arguments, got %zd", given);
    if (!numbers(arguments + 1, 3, n) || !numbers(arguments + 5, 2, in)) return NULL;
    if (PyObject_GetBuffer(arguments[0], &view, PyBUF_SIMPLE) < 0) return NULL;
    if (PyObject_GetBuffer(arguments[4], &into, PyBUF_WRITABLE) < 0) { PyBuffer_Release(&view); return NULL; }
    PyObject *answer = NULL;
    int64_t most = into.len / (int64_t)sizeof(int64_t) / PLACES;
    if (n[0] < 0 || n[0] > n[1] || n[1] > view.len || n[2] < 0 || in[0] < 0 || in[1] > most || n[2] > in[1] - in[0]
        || (uintptr_t)into.buf % sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "the records, or the rows for them, are outside of their buffer");
    } else {
        place begin = view.buf;
        walked_t walked = {VALID, 0, begin + n[0], 0};
        PyThreadState *state = n[1] - n[0] >= RELEASE_LOCK_BYTES ? PyEval_SaveThread() : NULL;
        place_records(&walked, begin, begin + n[1], n[2], (int64_t *)into.buf + in[0], in[1]);
        if (state != NULL) PyEval_RestoreThread(state);
        answer = Py_BuildValue("(iL)", walked.problem, (long long)walked.index);
    }
    PyBuffer_Release(&into);
    PyBuffer_Release(&view);
    return answer;
}

static uint64_t big_endian(place at, int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++) number = number << 8 | at[i];
    return number;
}

/* The fields of a batch's header, in order. */
enum { BASE_OFFSET, BATCH_LENGTH, LEADER_EPOCH, MAGIC_BYTE, CRC, ATTRIBUTES, LAST_DELTA, BASE_TIME, MAX_TIME,
       PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT, FIELDS };
static const unsigned char field_bytes[FIELDS] = {8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4};

static inline int64_t signed_number(uint64_t number, int bytes) {
    int unused = 64 - 8 * bytes;
    return (int64_t)(number << unused) >> unused;
}

PyDoc_STRVAR(plain_fields_doc, "plain_fields(batch, max_bytes, earliest, latest, latest_codec)\n--\n\n"
    "See logstore.pure_record_walk.plain_fields.");

static PyObject *plain_fields(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    int64_t n[4], field[FIELDS];
    Py_buffer view;
    if (given != 5) return PyErr_Format(PyExc_TypeError, "expected 5 arguments, got %zd", given);
    if (!numbers(arguments + 1, 4, n) || PyObject_GetBuffer(arguments[0], &view, PyBUF_SIMPLE) < 0) return NULL;
    int64_t size = view.len;
    int is_whole = size >= HEADER_BYTES;
    place at = view.buf;
    for (int i = 0; is_whole && i < FIELDS; at += field_bytes[i++]) {
        uint64_t number = big_endian(at, field_bytes[i]);
        field[i] = i == CRC ? (int64_t)number : signed_number(number, field_bytes[i]);
    }
    PyBuffer_Release(&view);
    if (!is_whole || field[BASE_OFFSET] != 0 || field[MAGIC_BYTE] != 2
        || size > n[0] || field[BATCH_LENGTH] + LOG_OVERHEAD != size
        || field[ATTRIBUTES] < 0 || field[ATTRIBUTES] > n[3] /* neither transactional nor control */
        || field[LAST_DELTA] < 0 || field[LAST_DELTA] != field[COUNT] - 1
        || (field[PRODUCER_ID] >= 0 && field[BASE_SEQUENCE] < 0)
        || field[BASE_TIME] < n[1] || field[BASE_TIME] > n[2] || field[MAX_TIME] < n[1] || field[MAX_TIME] > n[2])
        Py_RETURN_NONE;
    PyObject *made = PyTuple_New(FIELDS);
    for (int i = 0; made != NULL && i < FIELDS; i++) {
        PyObject *number = PyLong_FromLongLong(field[i]);
        if (number == NULL || PyTuple_SetItem(made, i, number) < 0) { Py_DECREF(made); return NULL; }
    }
    return made;
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL, walk_doc},
    {"is_plain", (PyCFunction)(void (*)(void))is_plain, METH_FASTCALL, is_plain_doc},
    {"plain_fields", (PyCFunction)(void (*)(void))plain_fields, METH_FASTCALL, plain_fields_doc},
    {"places", (PyCFunction)(void (*)(void))places, METH_FASTCALL, places_doc},
    {"find", (PyCFunction)(void (*)(void))find, METH_FASTCALL, find_doc},
    {"spans", (PyCFunction)(void (*)(void))spans, METH_FASTCALL, spans_doc},
    {"due_times", (PyCFunction)(void (*)(void))due_times, METH_FASTCALL, due_times_doc},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_record_walk", "The compiled twin of pure_record_walk.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__record_walk(void) { return PyModuleDef_Init(&module); }
