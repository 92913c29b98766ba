"""Names of functions as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.heap_traces.function_names import short_name

STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
MAP = (
    f"std::map<{STRING}, int, std::less<{STRING} >, "
    f"std::allocator<std::pair<{STRING} const, int> > >"
)
HASHED = (
    "std::unordered_map<int, Foo, std::hash<int>, std::equal_to<int>, "
    "std::allocator<std::pair<int const, Foo> > >"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (f"{STRING}::append(char const*)", "std::string::append"),
        (f"{STRING}::basic_string(char const*)", "std::string::string"),
        (f"{STRING}::~basic_string()", "std::string::~string"),
        (f"{MAP}::operator[]({STRING} const&)", "std::map<std::string, int>::operator[]"),
        (f"{HASHED}::rehash(unsigned long)", "std::unordered_map<int, Foo>::rehash"),
        (
            f"void std::vector<{STRING}, std::allocator<{STRING} > >::_M_realloc_insert<{STRING} "
            f"const&>(__gnu_cxx::__normal_iterator<{STRING}*, int>, {STRING} const&)",
            "std::vector<std::string>::_M_realloc_insert<std::string const&>",
        ),
        (
            "std::basic_ostream<char, std::char_traits<char> >& std::endl<char, "
            "std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&)",
            "std::endl<char>",
        ),
        (
            "std::basic_ostream<char, std::char_traits<char> >& std::operator<< "
            "<std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, "
            "char const*)",
            "std::operator<<<std::char_traits<char>>",
        ),
        ("std::unique_ptr<Foo, std::default_delete<Foo> >::reset(Foo*)",
         "std::unique_ptr<Foo>::reset"),
        ("std::stack<int, std::deque<int, std::allocator<int> > >::push(int&&)",
         "std::stack<int>::push"),
        ("std::__1::vector<int, std::__1::allocator<int> >::reserve(unsigned long)",
         "std::vector<int>::reserve"),
        ("std::vector<int, std::allocator<int> > make<int>(int)", "make<int>"),
        ("Queue<std::less<int> >::push(int)", "Queue<std::less<int>>::push"),
        ("std::vector<int, mine::Pool<int> >::reserve(unsigned long)",
         "std::vector<int, mine::Pool<int>>::reserve"),
        ("operator new(unsigned long)", "operator new"),
        ("operator new[](unsigned long, std::nothrow_t const&)", "operator new[]"),
        (f"Foo::operator {STRING}() const", "Foo::operator std::string"),
        ("Foo::operator<<(int)", "Foo::operator<<"),
        ("bool operator< <int>(A<int> const&)", "operator<<int>"),
        ("A<B>::operator->() const", "A<B>::operator->"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda}::operator()"),
        ("(anonymous namespace)::Hidden::put(int)", "Hidden::put"),
        ("foo(int)::Local::bar(char) const", "foo::Local::bar"),
        ("call(int (*)(char), void*)", "call"),
        ("non-virtual thunk to A::b()", "A::b"),
        ("foo[abi:cxx11](int)", "foo"),
        ("f(int) [clone .isra.0]", "f"),
        ("helper.constprop.0", "helper"),
        ("helper.part.0.cold", "helper"),
        ("fclose@@GLIBC_2.2.5", "fclose"),
        ("unsigned long* count(char const*)", "count"),
        ("alloc::raw_vec::RawVec$LT$T$C$A$GT$::reserve::h0123456789abcdef",
         "alloc::raw_vec::RawVec<T,A>::reserve"),
    ],
)  # fmt: skip
def test_names(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize(
    "name",
    ["", "main", "_start", "Stacks.hold", "new Stacks$Made", "<module>", "<init>", "a<b", "f(",
     ")(", "x" * 50_000 + "(int)", "<" * 5_000, "camlStdlib__List__map_123"],
)  # fmt: skip
def test_what_is_no_name_of_cpp_stays(name: str) -> None:
    assert short_name(name) == name


@given(st.text(alphabet="ab:<>()[]{}, &*~$.@operatosd", max_size=60))
def test_any_text_has_a_short_name(name: str) -> None:
    assert len(short_name(name)) <= len(name) + 2
    assert bool(short_name(name)) == bool(name)
